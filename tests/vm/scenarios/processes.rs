//! Requests with too many, too busy or too obstinate processes.

use std::fs;

use nix::sys::signal::Signal;

use crate::guest::{
    container::{Container, View, children},
    server::{Server, Settings, VICTIM, payload, until},
    victim,
};

/// Starts processes until one fails, and then waits. A shell that cannot start a
/// process ends, so another one starts them; the first one becomes a program.
const MANY: &str = "(for i in $(seq 100); do sleep 300 & done) & exec sleep 300";

/// Ignores every signal and leaves its session.
const DAEMON: &str = "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 600 >/dev/null 2>&1 & \
                      sleep 600 >/dev/null 2>&1) & sleep 600";

fn start(container: &Container, tier: &str, script: &str, limits: &str) -> Server {
    let plugins = [("hostile", script, limits), VICTIM];
    let arguments = ["--request-cgroups", "require", "--isolation", tier];
    let container = Some(container);
    Settings { container, plugins: &plugins, arguments: &arguments, work: None }.start()
}

/// The only cgroup of a request other than the victim's: the one with the most
/// processes.
fn largest(container: &Container) -> u64 {
    let count = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path.join("pids.current")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    children(&container.requests()).iter().map(count).max().unwrap_or(0)
}

/// Processes of the machine with this command line.
fn count(command: &[u8]) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_meant = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == command)
    };
    entries.filter(is_meant).count()
}

pub(super) fn are_limited_in_every_tier() {
    for tier in ["uid", "namespaces"] {
        let container = Container::new(View::Writable, &[]);
        let server = start(&container, tier, MANY, "  limits: {processes: 20}");
        victim::during(&server, || {
            let request = server.start("hostile", 120);
            until("the limit", || largest(&container) >= 20);
            assert!(largest(&container) <= 23, "{tier}");
            request.vanish();
        });
        until("the end", || children(&container.requests()).is_empty());
        drop(server);
    }
}

pub(super) fn daemons_end_with_their_request() {
    let container = Container::new(View::Writable, &[]);
    let server = start(&container, "uid", DAEMON, "");
    victim::during(&server, || {
        let request = server.start("hostile", 120);
        until("the daemons", || count(b"sleep\x00600\0") == 3);
        request.vanish();
    });
    until("the end", || children(&container.requests()).is_empty());
    server.signal(Signal::SIGTERM);
}

pub(super) fn spinning_requests_give_way() {
    let container = Container::new(View::Writable, &[]);
    let server = start(&container, "uid", &payload("spin 30"), "");
    let weight = |path: &std::path::Path| fs::read_to_string(path.join("cpu.weight")).unwrap();
    assert_eq!(weight(&container.requests()).trim(), "10");
    assert_eq!(weight(&container.path("cmp-supervisor")).trim(), "100");
    victim::during(&server, || {
        let request = server.start("hostile", 120);
        until("the threads", || largest(&container) > 30);
        for _ in 0..3 {
            server.ask(VICTIM.0, 120).unwrap();
        }
        request.vanish();
    });
}
