//! Sockets while plugins and supervisors start and stop.

use std::{fs, os::unix::net::UnixListener};

use rustix::process::Signal;

use crate::reload::{
    client::{Connecting, Fate, connect},
    kubelet::{Age, FakeKubelet, payload},
    loaded::definition,
    server::{Folders, eventually, write},
};

#[test]
fn a_socket_answers_after_every_step_of_an_update() {
    let folders = Folders::new();
    let mut kubelet = FakeKubelet::new(&folders.plugins(), Age::New);
    kubelet.publish(payload([("a.yaml", definition("a", "0"))]));
    let server = folders.serve();
    let client = Connecting::start(folders.socket("a"));
    for number in 1..=20 {
        let texts = payload([("a.yaml", definition("a", &number.to_string()))]);
        kubelet.update(texts, |_| assert_eq!(connect(&folders.socket("a")), Fate::Served)).unwrap();
        let (status, body) = server.ask("POST", "/-/reload");
        assert_eq!(status, 200, "{body}");
    }
    let fates = client.end();
    println!("{fates:?}");
    assert!(fates.served > 20 && fates.missing + fates.refused + fates.abandoned == 0, "{fates:?}");
}

#[test]
fn accepted_connections_are_served_while_a_plugin_comes_and_goes() {
    let folders = Folders::new();
    write(&folders.plugins(), "stays.yaml", &definition("stays", "x"));
    let server = folders.serve();
    let clients = [0; 3].map(|_| Connecting::start(folders.socket("flaps")));
    for _ in 0..40 {
        write(&folders.plugins(), "flaps.yaml", &definition("flaps", "x"));
        assert_eq!(server.ask("POST", "/-/reload").0, 200);
        fs::remove_file(folders.plugins().join("flaps.yaml")).unwrap();
        assert_eq!(server.ask("POST", "/-/reload").0, 200);
    }
    for client in clients {
        let fates = client.end();
        println!("{fates:?}");
        assert!(fates.served > 20 && fates.missing > 20, "{fates:?}");
        assert_eq!(fates.abandoned, 0, "{fates:?}");
    }
}

#[test]
fn a_second_supervisor_takes_over_without_a_gap() {
    let folders = Folders::new();
    for plugin in ["a", "b"] {
        write(&folders.plugins(), &format!("{plugin}.yaml"), &definition(plugin, "x"));
    }
    let mut old = folders.serve();
    let clients = ["a", "b"].map(|plugin| Connecting::start(folders.socket(plugin)));
    for _ in 0..5 {
        let new = folders.serve();
        old.signal(Signal::TERM);
        old.ends();
        old = new;
    }
    for client in clients {
        let fates = client.end();
        println!("{fates:?}");
        let failed = fates.missing + fates.refused + fates.abandoned;
        assert!(fates.served > 20 && failed == 0, "{fates:?}");
    }
    old.signal(Signal::TERM);
    old.ends();
    assert_eq!(fs::read_dir(folders.sockets()).unwrap().count(), 0, "a file is left");
}

#[test]
fn a_supervisor_removes_the_sockets_of_a_killed_one() {
    let folders = Folders::new();
    for plugin in ["kept", "gone"] {
        write(&folders.plugins(), &format!("{plugin}.yaml"), &definition(plugin, "x"));
    }
    drop(folders.serve());
    assert_eq!(connect(&folders.socket("kept")), Fate::Refused);
    let _other = UnixListener::bind(folders.socket("of-somebody-else")).unwrap();
    fs::remove_file(folders.plugins().join("gone.yaml")).unwrap();
    let _server = folders.serve();
    assert_eq!(connect(&folders.socket("kept")), Fate::Served);
    eventually("the dead socket to go", || connect(&folders.socket("gone")) == Fate::Missing);
    assert!(folders.socket("of-somebody-else").exists());
    let staging = fs::read_dir(folders.sockets())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(staging.count(), 1, "the predecessor's directory is left");
}
