//! The ability to create cgroups, and the state before and after.

use nix::sys::signal::{Signal, kill};

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

pub(super) fn leftovers_are_removed() {
    let container = Container::new(View::Writable, &[]);
    let demanded = ["--request-cgroups", "require", "--isolation", "uid"];
    let server = settings(&container, &demanded).start();
    let before = container.requests();
    let _request = server.start("sleeper", 60);
    until("the request runs", || !children(&before).is_empty());
    for process in container.read("cmp-supervisor/cgroup.procs").lines() {
        let _ = kill(nix::unistd::Pid::from_raw(process.parse().unwrap()), Signal::SIGKILL);
    }
    drop(server);
    let server = settings(&container, &demanded).start();
    server.ask("victim", 30).unwrap();
    assert!(!before.exists(), "{} is left", before.display());
    assert_ne!(before, container.requests());
}
