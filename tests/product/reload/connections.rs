//! Probes are answered whatever the other clients do.

use std::{
    fs,
    io::{IoSlice, Read, Write},
    net::TcpStream,
    os::{fd::AsRawFd, unix::net::UnixStream},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::socket::{ControlMessage, MsgFlags, sendmsg},
};

use crate::{
    reload::{
        loaded::definition,
        server::{Folders, Server, write},
    },
    skip::skip,
    waiting::{PATIENCE, eventually},
};

/// More connections than the server keeps.
const MANY: usize = 96;

/// Answers that fill every buffer between server and client.
const UNREAD_ANSWERS: usize = 1000;

fn serve(folders: &Folders) -> Server {
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    folders.serve()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a text, if the server still reads it, and keeps the connection.
fn send(server: &Server, text: &str) -> TcpStream {
    let mut stream = connect(server);
    let _ = stream.write_all(text.as_bytes());
    stream
}

fn slow_reader(server: &Server) -> TcpStream {
    send(server, &"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(UNREAD_ANSWERS))
}

/// Opens more connections than the server keeps, with probes in between.
fn probes_pass(server: &Server, open: impl Fn(usize) -> TcpStream) {
    let mut kept = Vec::new();
    for number in 0..MANY {
        kept.push(open(number));
        if number % 16 == 15 {
            for path in ["/livez", "/readyz"] {
                assert_eq!(server.ask("GET", path).0, 200, "{path} beside {number}");
            }
        }
    }
}

#[test]
fn idle_connections_do_not_stop_probes() {
    let folders = Folders::new();
    let server = serve(&folders);
    probes_pass(&server, |_| connect(&server));
}

#[test]
fn half_of_a_head_does_not_stop_probes() {
    let folders = Folders::new();
    let server = serve(&folders);
    probes_pass(&server, |_| send(&server, "GET /livez HTTP/1.1\r\nHost:"));
}

#[test]
fn slow_readers_among_idle_connections_do_not_stop_probes() {
    let folders = Folders::new();
    let server = serve(&folders);
    probes_pass(&server, |number| {
        if number.is_multiple_of(2) { slow_reader(&server) } else { connect(&server) }
    });
}

/// The kernel would close them in a thread of the supervisor, which may take long.
#[test]
fn clients_of_a_plugin_cannot_send_descriptors() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(16)) {
        return skip("needs Linux 6.16");
    }
    let folders = Folders::new();
    let _server = serve(&folders);
    let client = UnixStream::connect(folders.socket("a")).unwrap();
    let descriptors = [client.as_raw_fd()];
    let carried = [ControlMessage::ScmRights(&descriptors)];
    let (socket, bytes) = (client.as_raw_fd(), [IoSlice::new(b"PRI")]);
    let sent = sendmsg::<()>(socket, &bytes, &carried, MsgFlags::empty(), None);
    assert_eq!(sent, Err(Errno::EPERM));
}

#[test]
fn reloads_do_not_stop_probes() {
    let folders = Folders::new();
    let server = serve(&folders);
    probes_pass(&server, |_| send(&server, "POST /-/reload HTTP/1.1\r\nHost: x\r\n\r\n"));
    // The last of them may still be at work.
    eventually("an order", || server.ask("POST", "/-/reload").0 == 200);
}

#[test]
fn the_longest_idle_connection_is_closed_for_a_new_one() {
    let folders = Folders::new();
    let server = serve(&folders);
    let mut oldest = connect(&server);
    let mut kept: Vec<_> = (0..MANY).map(|_| connect(&server)).collect();
    assert_eq!(oldest.read(&mut [0]).unwrap(), 0);
    let newest = kept.last_mut().unwrap();
    newest.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    newest.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[test]
fn an_answer_that_is_not_read_is_cut_off() {
    let folders = Folders::new();
    let server = serve(&folders);
    let slow = slow_reader(&server);
    eventually("the end of the slow connection", || slow.take_error().unwrap().is_some());
}

#[test]
fn a_head_that_arrives_slowly_is_cut_off() {
    let folders = Folders::new();
    let server = serve(&folders);
    let mut slow = send(&server, "GET /livez HTTP/1.1\r\n");
    let until = Instant::now() + PATIENCE;
    while slow.write_all(b"A: b\r\n").is_ok() {
        assert!(Instant::now() < until, "the server still reads the head");
        thread::sleep(Duration::from_millis(500));
    }
}
