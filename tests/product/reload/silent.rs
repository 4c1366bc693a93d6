//! A work volume that does not answer.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::geteuid,
};

use crate::{
    reload::server::{Folders, eventually, write},
    skip::skip,
};

/// A file system in user space whose server never answers.
struct Silent {
    server: Option<File>,
    point: PathBuf,
}

impl Silent {
    fn mount(point: &Path) -> Option<Self> {
        let server = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let descriptor = server.as_raw_fd();
        let options = format!("fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other");
        let none = Some("silent");
        mount(none, point, Some("fuse"), MsFlags::empty(), Some(options.as_str())).ok()?;
        Some(Self { server: Some(server), point: point.to_owned() })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // All calls that wait fail now.
        self.server = None;
        umount2(&self.point, MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_work_volume_that_does_not_answer_is_named_and_stops_nothing_else() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    write(
        &folders.plugins(),
        "a.yaml",
        "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [cat]}}\n",
    );
    let server = folders.serve();
    let is_work = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| path.is_dir() && name.to_string_lossy().starts_with(".tmp"))
    };
    let mut inside = fs::read_dir(folders.plugins().parent().unwrap()).unwrap();
    let work = inside.find_map(|entry| Some(entry.unwrap().path()).filter(is_work)).unwrap();
    let Some(silent) = Silent::mount(&work) else { return skip("needs /dev/fuse") };
    eventually("the reason", || {
        let (code, text) = server.ask("GET", "/readyz?verbose");
        code == 503 && text.contains(&format!("{}: no answer within 5 s", work.display()))
    });
    for _ in 0..20 {
        assert_eq!(server.ask("GET", "/livez").0, 200);
    }
    drop(silent);
    eventually("readiness", || server.ask("GET", "/readyz").0 == 200);
}
