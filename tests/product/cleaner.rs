//! The process that removes the files of ended requests, when it fails.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    sandbox_settings::{
        bench::{Bench, Server},
        healing::{sleeper, unique},
        read_only::range,
    },
    skip::skip,
    spawned::children,
    waiting::{eventually, one_of_few, retry},
};

/// Name of the process.
const CLEANER: [&str; 1] = ["cmp-cleaner"];

#[test]
fn requests_end_without_a_cleaner_that_was_killed() {
    let Some((bench, server, cleaner)) = start("echo x >file") else { return };
    kill_process(cleaner, Signal::KILL).unwrap();
    for _ in 0..3 {
        bench.ask("tried", &[]).manifests();
    }
    is_replaced(&bench, &server, cleaner);
}

#[test]
fn requests_end_without_a_cleaner_that_does_not_answer() {
    let Some((bench, server, cleaner)) = start("echo x >file") else { return };
    kill_process(cleaner, Signal::STOP).unwrap();
    bench.ask("tried", &[]).manifests();
    // On a busy machine, it may have been replaced by now.
    let is_left = workspaces(&bench) != 0;
    assert!(is_left || cleaners(&server) != Some(cleaner), "the cleaner was not stopped");
    for _ in 0..2 {
        bench.ask("tried", &[]).manifests();
    }
    is_replaced(&bench, &server, cleaner);
}

#[test]
fn requests_end_with_more_files_than_the_cleaner_removes() {
    let Some((bench, server, cleaner)) = start("seq 20000 | xargs touch") else { return };
    let began = Instant::now();
    eventually("the end of all workspaces", || workspaces(&bench) == 0);
    // On a busy machine, it may have been replaced, after 5 s.
    let is_slow = began.elapsed() > Duration::from_secs(4);
    assert!(is_slow || cleaners(&server) == Some(cleaner), "the cleaner has ended");
}

/// A cleaner that does not answer keeps the spawner busy while it ends the other leases.
#[test]
fn no_request_begins_after_the_end_of_the_supervisor() {
    // On a busy machine, the spawner may replace the cleaner before that, after 5 s.
    one_of_few("a cleaner until the end", || {
        let few = ["--max-requests", "2", "--uid-range", &range(6)];
        // Skipped: no other attempt would do more.
        let Some((bench, server, cleaner)) = start_with("echo x >file", &few) else {
            return Some(());
        };
        let [before, after] = around_the_end(&bench, server, cleaner)?;
        assert!(after.is_subset(&before), "{before:?} {after:?}");
        Some(())
    });
}

/// Kills the supervisor while the spawner waits for a cleaner that was stopped. Returns the
/// workspaces before and after the spawner's end; `None` if it replaced the cleaner.
fn around_the_end(
    bench: &Bench,
    mut server: Server,
    cleaner: Pid,
) -> Option<[BTreeSet<OsString>; 2]> {
    let time = unique(60);
    bench.add("slow", "", &format!("sleep {time}"));
    eventually("the other plugin", || bench.path("sockets/slow.sock").exists());
    let spawner = server.spawner();
    let descriptors = || fs::read_dir(format!("/proc/{spawner}/fd")).map_or(0, Iterator::count);
    let before = thread::scope(|scope| {
        scope.spawn(|| bench.ask("slow", &[]));
        eventually("the slow request", || sleeper(&time).is_some());
        kill_process(cleaner, Signal::STOP).unwrap();
        for _ in 0..2 {
            bench.ask("tried", &[]).manifests();
        }
        let is_replaced = || cleaners(&server) != Some(cleaner);
        // One for each of three leases, and two more.
        let leases = || children(spawner, &["cmp-standby"]).len() == 5;
        eventually("three leases", || leases() || is_replaced());
        // It opens others for moments.
        let looks = (0..20).map(|_| {
            thread::sleep(Duration::from_millis(10));
            descriptors()
        });
        let fewer = looks.min().unwrap_or_default();
        scope.spawn(|| bench.ask("tried", &[]));
        // Those of its worker.
        let waits = || descriptors() >= fewer + 2;
        eventually("a request that waits for a UID", || waits() || is_replaced());
        let before = names(bench);
        let before = (!is_replaced()).then_some(before);
        server.kill();
        before
    });
    eventually("the end of the spawner", || descriptors() == 0);
    Some([before?, names(bench)])
}

/// A server in tier `uid` that has answered a request with this script, and its cleaner.
fn start(script: &str) -> Option<(Bench, Server, Pid)> {
    start_with(script, &[])
}

fn start_with(script: &str, arguments: &[&str]) -> Option<(Bench, Server, Pid)> {
    if !rustix::process::getuid().is_root() {
        skip("needs root: requests have UIDs of their own");
        return None;
    }
    let bench = Bench::new("", &format!("{script}; echo 'kind: A'"));
    let server = bench.serve("uid", arguments);
    bench.ask("tried", &[]).manifests();
    let cleaner = retry(|| cleaners(&server).ok_or("a cleaner"));
    Some((bench, server, cleaner))
}

/// Waits until the workspaces of its requests are gone, and those of another cleaner.
#[track_caller]
fn is_replaced(bench: &Bench, server: &Server, cleaner: Pid) {
    eventually("the end of all workspaces", || workspaces(bench) == 0);
    eventually("another cleaner", || {
        bench.ask("tried", &[]).manifests();
        cleaners(server).is_some_and(|now| now != cleaner)
    });
    eventually("the end of all workspaces", || workspaces(bench) == 0);
}

fn cleaners(server: &Server) -> Option<Pid> {
    children(server.spawner(), &CLEANER).first().copied().and_then(Pid::from_raw)
}

/// Workspaces of requests that have not ended.
fn workspaces(bench: &Bench) -> usize {
    names(bench).len()
}

fn names(bench: &Bench) -> BTreeSet<OsString> {
    let entries = fs::read_dir(bench.path("work/_cmp_server")).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}
