//! A supervisor that is process 1 of a container, which gets the orphans.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    reload::server::{Folders, Server},
    skip::skip,
    spawned::{all_children, children},
    waiting::eventually,
};

/// Options of `unshare`.
const CONTAINER: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];

fn has_containers() -> bool {
    let made = Command::new("unshare").args(CONTAINER).arg("true").output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        skip("needs the right to make a PID namespace (root with SYS_ADMIN)");
    }
    can
}

/// Starts a script as process 1, which becomes a supervisor.
fn start(folders: &Folders, script: &str) -> (Server, i32) {
    let mut command = Command::new("unshare");
    command.args(CONTAINER).args(["sh", "-c", script, env!("CARGO_BIN_EXE_cmp-supervisor")]);
    let server = folders.start(&mut command);
    let [first] = children(server.id(), &["cmp-supervisor"])[..] else {
        panic!("it has one process 1")
    };
    (server, first)
}

#[test]
fn orphans_of_its_container_are_collected() {
    if !has_containers() {
        return;
    }
    let folders = Folders::new();
    let (_server, first) = start(&folders, "exec \"$0\" \"$@\"");
    for _ in 0..3 {
        // As `kubectl exec` does.
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &first.to_string(), "--pid", "--mount"]);
        enter.args(["sh", "-c", "sleep 300 &"]).stdout(Stdio::null());
        assert!(enter.status().unwrap().success());
        let orphans = || children(first, &["sleep"]);
        eventually("an orphan", || !orphans().is_empty());
        let orphan = Pid::from_raw(orphans()[0]).unwrap();
        kill_process(orphan, Signal::KILL).unwrap();
        eventually("its end", || !all_children(first).contains(&orphan.as_raw_pid()));
    }
}

#[test]
fn orphans_that_ended_before_it_began_are_collected() {
    if !has_containers() {
        return;
    }
    let folders = Folders::new();
    // The shell becomes the supervisor, and its children stay.
    let (_server, first) = start(&folders, "true & true & exec \"$0\" \"$@\"");
    eventually("their end", || {
        let [_spawner] = all_children(first)[..] else { return false };
        true
    });
}
