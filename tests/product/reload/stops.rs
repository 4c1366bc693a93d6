//! Supervisors that are told to stop.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
    time::Instant,
};

use rustix::{
    io::ioctl_fionread,
    process::{Pid, Signal, geteuid, kill_process},
};

use crate::{
    mounted::InMemory,
    reload::{
        client::{Fate, connect},
        loaded::definition,
        server::{ANY_PORT, Folders, Server, write},
    },
    skip::skip,
    spawned::children,
    waiting::{PATIENCE, eventually},
};

fn files(folders: &Folders) -> Vec<String> {
    let entries = fs::read_dir(folders.sockets()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_signal_during_the_start_ends_it_in_order() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    for _ in 0..5 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        let mut server = folders.begin(&mut command, ANY_PORT, &[]);
        server.says("definitions changed");
        server.signal(Signal::TERM);
        assert_eq!(server.ends(), Some(0));
        assert!(files(&folders).is_empty(), "{:?}", files(&folders));
    }
}

/// Begins a supervisor and waits until it has started its spawner.
fn begin(folders: &Folders) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let server = folders.begin(&mut command, ANY_PORT, &[]);
    let until = Instant::now() + PATIENCE;
    // Nothing sleeps here: the spawner is ready within milliseconds.
    while children(server.id(), &["cmp-supervisor", "exe"]).is_empty() {
        assert!(Instant::now() < until, "it starts no spawner");
    }
    server
}

#[test]
fn a_signal_in_the_first_moments_ends_it_in_order() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = begin(&folders);
        server.signal(signal);
        assert_eq!(server.ends(), Some(0));
        assert!(files(&folders).is_empty(), "{:?}", files(&folders));
    }
}

#[test]
fn sockets_stay_for_the_delay_or_until_a_second_signal() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    for (delay, is_hurried) in [("5m", true), ("1ms", false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        let arguments = ["--drain-timeout", "10m", "--shutdown-delay", delay];
        let mut server = folders.start_with(&mut command, &arguments);
        server.signal(Signal::TERM);
        if is_hurried {
            server.says("\"msg\":\"stopping\"");
            assert_eq!(connect(&folders.socket("a")), Fate::Served);
            server.signal(Signal::TERM);
        }
        assert_eq!(server.ends(), Some(0));
        assert!(files(&folders).is_empty(), "{:?}", files(&folders));
    }
}

#[test]
fn signals_that_its_parent_blocked_end_it_in_order() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new("env");
    command.args(["--block-signal", env!("CARGO_BIN_EXE_cmp-supervisor")]);
    let mut server = folders.start(&mut command);
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    assert!(files(&folders).is_empty(), "{:?}", files(&folders));
}

#[test]
fn a_reload_in_the_first_moments_does_not_end_it() {
    let folders = Folders::new();
    let mut server = begin(&folders);
    server.signal(Signal::HUP);
    server.says("received SIGHUP");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn signals_for_profiles_do_not_end_it() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut server = folders.serve();
    for signal in [Signal::USR1, Signal::USR2] {
        server.signal(signal);
        assert_eq!(connect(&folders.socket("a")), Fate::Served);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn sockets_are_removed_although_the_hidden_directory_was() {
    let folders = Folders::new();
    for plugin in ["gone", "stays"] {
        write(&folders.plugins(), &format!("{plugin}.yaml"), &definition(plugin, "x"));
    }
    let mut server = folders.serve();
    let hidden = files(&folders).into_iter().find(|name| name.starts_with('.')).unwrap();
    let hidden = folders.sockets().join(hidden);
    // The supervisor removes files there at the same time.
    eventually("the hidden directory to go", || {
        fs::remove_dir_all(&hidden).is_ok() || !hidden.exists()
    });
    fs::remove_file(folders.plugins().join("gone.yaml")).unwrap();
    eventually("the socket to go", || !folders.socket("gone").exists());
    server.signal(Signal::TERM);
    server.ends();
    assert!(files(&folders).is_empty(), "{:?}", files(&folders));
}

#[test]
fn a_socket_is_removed_as_soon_as_its_directory_is_writable_again() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    let sockets = folders.sockets();
    let mounted = InMemory::at(&sockets, "mode=0777");
    for plugin in ["gone", "stays"] {
        write(&folders.plugins(), &format!("{plugin}.yaml"), &definition(plugin, "x"));
    }
    let server = folders.serve();
    mounted.become_writable(false);
    fs::remove_file(folders.plugins().join("gone.yaml")).unwrap();
    server.says("cannot remove a plugin's socket");
    assert!(folders.socket("gone").exists());
    mounted.become_writable(true);
    eventually("the socket to go", || !folders.socket("gone").exists());
    assert_eq!(connect(&folders.socket("stays")), Fate::Served);
}

/// Type of an HTTP/2 frame with headers.
const HEADERS: u8 = 1;

/// The HTTP/2 preface, SETTINGS with an initial window of 0 bytes, and a call of
/// `CheckPluginConfiguration` with an empty message.
const CHECK: [&[u8]; 4] = [
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
    b"\0\0\x6d\x01\x04\0\0\0\x01\x83\x86",
    b"\x04\x3e/plugin.ConfigManagementPluginService/CheckPluginConfiguration\
      \x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers",
    b"\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0",
];

/// Makes a call, and takes the head of its answer but no message.
fn ask_without_window(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&CHECK.concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let [_, length_high, length_low, kind, ..] = head;
        let mut frame = vec![0; u16::from_be_bytes([length_high, length_low]).into()];
        stream.read_exact(&mut frame).unwrap();
        if kind == HEADERS {
            return stream;
        }
    }
}

#[test]
fn a_stop_waits_for_an_answer_that_its_client_has_not_taken() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    let _client = ask_without_window(&folders.socket("a"));
    server.signal(Signal::TERM);
    server.says("\"msg\":\"stopping\"");
    // It ends the wait at once.
    server.signal(Signal::TERM);
    let line = server.says("cutting off the remaining requests");
    assert!(line.contains("\"answers\":1"), "{line}");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let (mut server, log) = folders.begin_unread(&mut command, ANY_PORT, &["--log-level", "trace"]);
    let socket = folders.socket("a");
    eventually("the socket", || connect(&socket) == Fate::Served);
    // They write several times the 64 KiB that a pipe holds.
    for _ in 0..300 {
        assert_eq!(connect(&socket), Fate::Served);
    }
    assert!(ioctl_fionread(&log).unwrap() > 16_384, "the log is too short");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    assert!(files(&folders).is_empty(), "{:?}", files(&folders));
}

#[test]
fn the_end_of_the_spawner_is_named_and_ends_it() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    // Several parts of the supervisor notice it at the same time.
    for _ in 0..10 {
        let mut server = folders.serve();
        let [spawner] = children(server.id(), &["cmp-supervisor", "exe"])[..] else {
            panic!("it has one spawner")
        };
        kill_process(Pid::from_raw(spawner).unwrap(), Signal::KILL).unwrap();
        server.says("the spawner is gone: all requests have ended");
        assert_eq!(server.ends(), Some(70));
    }
}
