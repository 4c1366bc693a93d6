//! The ability to create cgroups, and the state before and after.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::guest::{
    container::{Container, View, children},
    server::{Settings, VICTIM, until},
};

const SLEEPS: &str = "sleep 600";

fn settings<'s>(container: &'s Container, arguments: &'s [&'s str]) -> Settings<'s> {
    const PLUGINS: &[(&str, &str, &str)] = &[("sleeper", SLEEPS, ""), VICTIM];
    Settings { container: Some(container), plugins: PLUGINS, arguments, work: None }
}

/// With the capability `SYS_ADMIN`, the spawner would mount cgroups itself.
pub(super) fn a_read_only_mount_is_named() {
    let container = Container::new(View::Unprivileged, &[]);
    let server = settings(&container, &["--isolation", "landlock"]).start();
    let log = server.log();
    assert!(log.contains("requests have no cgroups"), "{log}");
    assert!(log.contains("/sys/fs/cgroup is mounted read-only"), "{log}");
    server.ask("victim", 30).unwrap();
    drop(server);
    let demanded = ["--isolation", "landlock", "--request-cgroups", "require"];
    let (code, log) = settings(&container, &demanded).refused();
    assert_eq!(code, Some(78), "{log}");
    assert!(
        log.contains("--request-cgroups require: /sys/fs/cgroup is mounted read-only"),
        "{log}"
    );
}

pub(super) fn a_mount_of_our_own_is_enough() {
    let container = Container::new(View::ReadOnly, &[]);
    let server = settings(&container, &["--request-cgroups", "require"]).start();
    server.ask("victim", 30).unwrap();
    let log = server.log();
    assert!(log.contains("each request has a cgroup"), "{log}");
    assert!(container.requests().exists());
}

pub(super) fn everything_is_restored() {
    let container = Container::new(View::Writable, &[]);
    let mut server = settings(&container, &["--request-cgroups", "require"]).start();
    server.ask("victim", 30).unwrap();
    server.stop();
    assert_eq!(children(&container.path("")), Vec::<std::path::PathBuf>::new());
    assert_eq!(container.read("cgroup.subtree_control"), "");
}

/// A shell starts the supervisor again in the same container, as a process manager
/// would.
pub(super) fn leftovers_are_removed() {
    let container = Container::new(View::Writable, &[]);
    let demanded = ["--request-cgroups", "require", "--isolation", "uid"];
    let server = settings(&container, &demanded).start_again_and_again();
    let before = container.requests();
    let _request = server.start("sleeper", 60);
    until("the request runs", || !children(&before).is_empty());
    let supervisor = child(server.pid());
    kill(child(supervisor), Signal::SIGKILL).unwrap();
    // It may have noticed that already, and ended.
    let _ = kill(supervisor, Signal::SIGKILL);
    until("the second start", || server.starts() == 2);
    // The lock on it ends with the last process of the killed spawner, which may
    // take a moment.
    until("the abandoned cgroup is removed", || {
        server.ask("victim", 30).unwrap();
        !before.exists()
    });
    assert!(container.requests().exists());
}

/// The first child of a process.
fn child(process: Pid) -> Pid {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let first = children.split_whitespace().next().expect("a child");
    Pid::from_raw(first.parse().unwrap())
}
