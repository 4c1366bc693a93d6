//! Sockets while plugins and supervisors start and stop.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process::Command,
};

use rustix::process::Signal;

use crate::{
    reload::{
        client::{Connecting, Fate, Fates, connect},
        kubelet::{Age, FakeKubelet, payload},
        loaded::definition,
        server::{Folders, Server, remove_at_once, write},
    },
    waiting::eventually,
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
        let before = client.ended();
        eventually("a connection after the reload", || client.ended() > before + 1);
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
    // On a busy machine, clients seldom get to connect.
    eventually("connections of all clients", || {
        for _ in 0..40 {
            write(&folders.plugins(), "flaps.yaml", &definition("flaps", "x"));
            assert_eq!(server.ask("POST", "/-/reload").0, 200);
            fs::remove_file(folders.plugins().join("flaps.yaml")).unwrap();
            assert_eq!(server.ask("POST", "/-/reload").0, 200);
        }
        let is_enough = |fates: Fates| fates.served > 20 && fates.missing > 20;
        clients.iter().map(Connecting::fates).all(is_enough)
    });
    for client in clients {
        let fates = client.end();
        println!("{fates:?}");
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
    // On a busy machine, clients seldom get to connect.
    eventually("connections of both clients", || {
        for _ in 0..5 {
            let new = folders.serve();
            old.signal(Signal::TERM);
            old.ends();
            old = new;
        }
        clients.iter().all(|client| client.fates().served > 20)
    });
    for client in clients {
        let fates = client.end();
        println!("{fates:?}");
        assert_eq!(fates.missing + fates.refused + fates.abandoned, 0, "{fates:?}");
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
    // The removal of dead sockets has a directory of its own for a moment.
    eventually("the predecessor's directory to go", || {
        let names =
            fs::read_dir(folders.sockets()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.as_encoded_bytes().starts_with(b".")).count() == 1
    });
}

/// A supervisor that serves plugin `a`.
fn serving_a() -> (Folders, Server) {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    eventually("the metric", || is_up(&server, true));
    (folders, server)
}

fn is_up(server: &Server, up: bool) -> bool {
    let line = format!("argocd_cmp_plugin_up{{plugin=\"a\"}} {}", u8::from(up));
    server.ask("GET", "/metrics").1.contains(&line)
}

#[test]
fn a_socket_that_another_process_removed_is_back_within_seconds() {
    let (folders, server) = serving_a();
    for _ in 0..3 {
        fs::remove_file(folders.socket("a")).unwrap();
        server.says("another process removed its socket");
        eventually("the socket", || connect(&folders.socket("a")) == Fate::Served);
    }
    eventually("the metric", || is_up(&server, true));
}

#[test]
fn a_socket_in_place_of_ours_that_is_dead_is_replaced() {
    let (folders, server) = serving_a();
    fs::remove_file(folders.socket("a")).unwrap();
    // argocd-cmp-server does this, and was killed.
    drop(UnixListener::bind(folders.socket("a")));
    eventually("the socket", || connect(&folders.socket("a")) == Fate::Served);
    server.says("a plugin has lost its socket");
}

#[test]
fn a_plugin_whose_socket_another_server_has_taken_is_not_shown_as_serving() {
    let (folders, server) = serving_a();
    let path = folders.sockets().join("other");
    let other = UnixListener::bind(&path).unwrap();
    fs::rename(path, folders.socket("a")).unwrap();
    let reason = format!("(PID {}, UID ", std::process::id());
    eventually("the reason", || {
        let page = server.ask("GET", "/plugins").1;
        page.contains(&reason) && page.contains("\"state\": \"failed\"")
    });
    eventually("the metric", || is_up(&server, false));
    let (status, page) = server.ask("GET", "/readyz");
    assert!(status == 503 && page.contains("[-]plugins failed: 0 of 1 served"), "{page}");
    drop(other);
    eventually("the socket", || connect(&folders.socket("a")) == Fate::Served);
    eventually("the metric", || is_up(&server, true));
    eventually("readiness", || server.ask("GET", "/readyz").0 == 200);
}

#[test]
fn two_supervisors_do_not_fight_for_a_socket() {
    let (folders, old) = serving_a();
    let new = folders.serve();
    old.says("a plugin has lost its socket");
    let number = |server: &Server| {
        let page = server.ask("GET", "/metrics").1;
        page.lines()
            .find(|l| l.starts_with("argocd_cmp_plugins{state=\"serving\"}"))
            .unwrap()
            .to_owned()
    };
    eventually("the loser", || number(&old).ends_with(" 0"));
    eventually("the winner", || number(&new).ends_with(" 1"));
    let file = || {
        fs::symlink_metadata(folders.socket("a"))
            .map(|about| std::os::unix::fs::MetadataExt::ino(&about))
            .unwrap()
    };
    let before = file();
    // Longer than the pause between two attempts.
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert_eq!(file(), before, "they fight");
    drop(new);
    eventually("the socket", || connect(&folders.socket("a")) == Fate::Served);
}

#[test]
fn a_directory_of_sockets_that_was_closed_or_removed_heals() {
    let (folders, server) = serving_a();
    fs::set_permissions(folders.sockets(), Permissions::from_mode(0o0)).unwrap();
    let mode = || fs::metadata(folders.sockets()).map(|about| about.permissions().mode() & 0o777);
    eventually("the mode", || mode().is_ok_and(|mode| mode == 0o755));
    fs::set_permissions(folders.socket("a"), Permissions::from_mode(0o0)).unwrap();
    let mode = || fs::metadata(folders.socket("a")).map(|about| about.permissions().mode() & 0o777);
    eventually("the socket's mode", || mode().is_ok_and(|mode| mode == 0o660));
    remove_at_once(&folders.sockets());
    eventually("the socket", || {
        folders.socket("a").exists() && connect(&folders.socket("a")) == Fate::Served
    });
    eventually("readiness", || server.ask("GET", "/readyz").0 == 200);
}

#[test]
fn a_umask_that_closes_files_to_their_owner_is_no_obstacle() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0777; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_cmp-supervisor")]);
    let _server = folders.start(&mut command);
    assert_eq!(connect(&folders.socket("a")), Fate::Served);
}
