//! Health checks over IPv4 and IPv6, and by the verb `probe`.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    process::Command,
    thread,
    time::Instant,
};

use nix::{errno::Errno, libc};
use rustix::net::listen;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::{
    confined::{refuse, without_ipv4},
    reload::{
        loaded::definition,
        server::{Folders, Server, unserved, write},
    },
    skip::skip,
    waiting::{PATIENCE, eventually},
};

/// Runs `probe` and returns its exit code and its standard error.
fn probe(check: &str, http: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = command.args(["probe", check, "--http", http]).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Probes until the result is the expected one: a busy machine may not answer within 5 s.
fn probe_says(check: &str, http: &str, expected: &(i32, String)) {
    eventually(&format!("{expected:?}"), || probe(check, http) == *expected);
}

/// Returns the port, too.
fn serve_on_all_addresses(folders: &Folders) -> (Server, u16) {
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let server = folders.start_on(&mut command, (Ipv6Addr::UNSPECIFIED, 0).into());
    let port = server.http.port();
    (server, port)
}

/// Makes the kernel refuse IPv6 to this thread and its processes.
fn refuse_ipv6() {
    let family = libc::AF_INET6.unsigned_abs().into();
    let is_ipv6 = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family);
    let rule = SeccompRule::new(vec![is_ipv6.unwrap()]).unwrap();
    refuse(libc::SYS_socket, vec![rule], Errno::EAFNOSUPPORT);
}

#[test]
fn all_addresses_are_those_of_ipv6_and_ipv4() {
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_err() {
        return skip("needs IPv6");
    }
    let folders = Folders::new();
    let (_server, port) = serve_on_all_addresses(&folders);
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    for http in addresses {
        assert_eq!(Server::ask_at(http, "GET", "/readyz").0, 200, "{http}");
        assert_eq!(Server::ask_at(http, "POST", "/-/reload").0, 200, "{http}");
        probe_says("ready", &http.to_string(), &(0, String::new()));
    }
    probe_says("live", &format!("[::]:{port}"), &(0, String::new()));
}

#[test]
fn without_ipv6_all_addresses_are_those_of_ipv4() {
    let test = thread::spawn(|| {
        refuse_ipv6();
        let folders = Folders::new();
        let (_server, port) = serve_on_all_addresses(&folders);
        assert_eq!(Server::ask_at((Ipv4Addr::LOCALHOST, port).into(), "GET", "/livez").0, 200);
        probe_says("live", &format!("[::]:{port}"), &(0, String::new()));
    });
    test.join().unwrap();
}

#[test]
fn without_ipv4_all_addresses_are_those_of_ipv6() {
    without_ipv4(|| {
        let folders = Folders::new();
        let (_server, port) = serve_on_all_addresses(&folders);
        probe_says("live", &format!("[::]:{port}"), &(0, String::new()));
    });
}

#[test]
fn a_probe_that_fails_says_why_in_one_line() {
    let (bound, http) = unserved();
    let http = http.to_string();
    let (code, text) = probe("live", &http);
    assert!(code == 1 && text.lines().count() == 1, "{code} {text}");
    assert!(text.contains(&format!("{http}/livez: no supervisor answers")), "{text}");
    // It accepts, and never answers.
    listen(&bound, 1).unwrap();
    let start = Instant::now();
    let slow = (1, format!("error: {http}/readyz: no answer within 5 s\n"));
    assert_eq!(probe("ready", &http), slow);
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(probe("ready", "off").0, 1);
}

#[test]
fn a_supervisor_that_is_not_ready_is_alive() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let http = silent.local_addr().unwrap().to_string();
    // It runs until the tests end. A probe may be gone before its answer.
    thread::spawn(move || {
        for mut stream in silent.incoming().flatten() {
            let answer =
                "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 12\r\n\r\nnot ready\nno";
            let asked = stream.read(&mut [0; 1024]);
            let _ = asked.and_then(|_| stream.write_all(answer.as_bytes()));
        }
    });
    let text = format!("error: {http}/readyz: the answer has status 503: not ready\n");
    probe_says("ready", &http, &(1, text));
}
