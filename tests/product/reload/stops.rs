//! Supervisors that are told to stop.

use std::fs;

use rustix::process::Signal;

use crate::reload::{
    loaded::definition,
    server::{Folders, eventually, write},
};

fn files(folders: &Folders) -> Vec<String> {
    let entries = fs::read_dir(folders.sockets()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn sockets_are_removed_although_the_hidden_directory_was() {
    let folders = Folders::new();
    for plugin in ["gone", "stays"] {
        write(&folders.plugins(), &format!("{plugin}.yaml"), &definition(plugin, "x"));
    }
    let mut server = folders.serve();
    let hidden = files(&folders).into_iter().find(|name| name.starts_with('.')).unwrap();
    fs::remove_dir_all(folders.sockets().join(hidden)).unwrap();
    fs::remove_file(folders.plugins().join("gone.yaml")).unwrap();
    eventually("the socket to go", || !folders.socket("gone").exists());
    server.signal(Signal::TERM);
    server.ends();
    assert!(files(&folders).is_empty(), "{:?}", files(&folders));
}
