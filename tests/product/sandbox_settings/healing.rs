//! Requests around paths, directories and processes that come and go.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use cmp_procfs::Fields;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::{
    reload::server::remove_at_once,
    sandbox_settings::bench::{Bench, tiers},
    spawned::children,
    waiting::{eventually, one_of_few},
};

const MANIFEST: &str = "echo 'kind: A'; echo 'data: told'";

#[test]
fn a_missing_path_of_the_operator_is_a_warning_and_is_read_once_it_exists() {
    for tier in tiers() {
        let bench = Bench::new("", "");
        let path = bench.path("late");
        let script =
            format!("echo 'kind: A'; echo \"data: '$(cat {}/file || true)'\"", path.display());
        bench.add("tried", "", &script);
        let bench = bench.with("CMP_SUPERVISOR_READ", &path.display().to_string());
        let server = bench.serve(tier, &[]);
        assert_eq!(bench.ask("tried", &[]).value("data"), "", "{tier}");
        server.says("a path of --read does not exist");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "told").unwrap();
        assert_eq!(bench.ask("tried", &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn a_path_of_the_operator_that_would_expose_others_ends_the_start() {
    for tier in tiers().into_iter().filter(|tier| *tier != "none") {
        for path in ["/proc", "/"] {
            let bench = Bench::new("", "");
            let mut command = bench.command("serve");
            for (flag, name) in
                [("--plugins-dir", "plugins"), ("--socket-dir", "sockets"), ("--work-dir", "work")]
            {
                command.arg(flag).arg(bench.path(name));
            }
            command.args(["--http", "off", "--isolation", tier, "--read", path]);
            let output = command.output().unwrap();
            let log = String::from_utf8_lossy(&output.stderr);
            let reason = format!("--read {path}: it would expose what no plugin may read");
            assert!(log.contains(&reason), "{tier}: {log}");
            assert_eq!(output.status.code(), Some(1), "{tier}");
        }
    }
}

#[test]
fn a_request_that_is_cut_off_by_the_end_of_the_supervisor_is_told_so() {
    for tier in tiers() {
        // On a busy machine, the connection may end before the client has the answer.
        let (error, log) = one_of_few("an answer", || {
            let time = unique(60);
            let bench = Bench::new("", &format!("echo begun >&2; sleep {time}"));
            let mut server = bench.serve(tier, &["--drain-timeout", "1s", "--log-level", "info"]);
            let error = thread::scope(|scope| {
                let asked = scope.spawn(|| bench.ask("tried", &[]));
                eventually("the command", || sleeper(&time).is_some());
                server.stop();
                asked.join().unwrap().error().to_owned()
            });
            (!error.contains("broke")).then(|| (error, server.log()))
        });
        assert!(error.contains("told to stop and cut the request off"), "{tier}: {error}");
        assert!(
            log.contains("outcome=shutdown") || log.contains("\"outcome\":\"shutdown\""),
            "{log}"
        );
        assert!(!log.contains("client_cancelled"), "{log}");
    }
}

#[test]
fn a_command_in_its_grace_does_not_outlive_the_supervisor() {
    for tier in tiers() {
        let time = unique(600);
        let script = format!("trap '' TERM; sleep {time} & while :; do sleep 1; done");
        let bench = Bench::new("", &script).with("ARGOCD_EXEC_FATAL_TIMEOUT", "10m");
        let mut server = bench.serve(tier, &["--exec-timeout", "5s", "--request-cgroups", "off"]);
        let error = bench.ask("tried", &[]).error().to_owned();
        assert!(error.contains("timeout of 5.0s passed"), "{tier}: {error}");
        assert!(sleeper(&time).is_some(), "{tier}: it has no grace");
        server.kill();
        eventually("its end", || sleeper(&time).is_none());
        eventually("the removal of its files", || {
            fs::read_dir(bench.path("work/_cmp_server")).unwrap().count() == 0
        });
    }
}

/// The spawner gets the descriptors of each order, and hands them on.
#[test]
fn an_order_without_its_descriptors_fails_alone() {
    // The spawner has this test's UID in these tiers, which may therefore change its limits.
    for tier in tiers().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        let bench = Bench::new("", MANIFEST);
        let server = bench.serve(tier, &[]);
        let spawner = Pid::from_raw(server.spawner());
        bench.ask("tried", &[]).manifests();
        // One of two descriptors is worse than none: the order looks whole.
        for room in [0, 1] {
            eventually("the end of all leases", || {
                fs::read_dir(bench.path("work/_cmp_server")).unwrap().count() == 0
                    && children(server.spawner(), &["cmp-ender"]).is_empty()
                    // Those that are too many give their descriptors back after 2 s.
                    && killers_on_standby(server.spawner()).len() == all_on_standby(tier) - 1
            });
            let free = Some(first_free_descriptor(server.spawner()) + room);
            let small = Rlimit { current: free, maximum: hard_limit(server.spawner()) };
            let usual = prlimit(spawner, Resource::Nofile, small).unwrap();
            let error = bench.ask("tried", &[]).error().to_owned();
            prlimit(spawner, Resource::Nofile, usual).unwrap();
            assert!(error.contains("descriptors are lost"), "{tier} {room}: {error}");
            assert_eq!(bench.ask("tried", &[]).value("data"), "told", "{tier} {room}");
        }
    }
}

/// Most descriptors to which a process may raise its limit.
fn hard_limit(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().ok()
}

/// The number that the next descriptor of a process gets.
fn first_free_descriptor(pid: i32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let taken: BTreeSet<u64> =
        entries.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect();
    (0..=taken.len() as u64).find(|number| !taken.contains(number)).unwrap()
}

/// A time in seconds for which no other program of this machine sleeps, nor another test.
pub(crate) fn unique(seconds: u32) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{seconds}.{:07}{number:04}", std::process::id())
}

/// The process that sleeps for a time of [`unique`].
pub(crate) fn sleeper(time: &str) -> Option<Pid> {
    let sleep = format!("sleep\0{time}\0");
    let is_it = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == sleep.as_bytes())
    };
    let pid = cmp_procfs::pids().unwrap().into_iter().find(is_it)?;
    Pid::from_raw(pid.cast_signed())
}

/// True if a command sleeps for a time of [`unique`] before all these requests have ended.
pub(crate) fn sleeps_before_all<T>(time: &str, asked: &[ScopedJoinHandle<'_, T>]) -> bool {
    let mut sleeps = false;
    eventually("a command, or the end of all requests", || {
        sleeps = sleeper(time).is_some();
        sleeps || asked.iter().all(ScopedJoinHandle::is_finished)
    });
    sleeps
}

/// Processes on standby that can become killers, in contrast to inits of namespaces.
pub(crate) fn killers_on_standby(spawner: i32) -> Vec<i32> {
    let namespace = |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let is_inside = |pid: &i32| namespace(pid) == namespace(&spawner);
    children(spawner, &["cmp-standby"]).into_iter().filter(is_inside).collect()
}

/// Their number during a request: one ends its lease, and the others are for all else. In
/// `namespaces`, no worker comes from them.
pub(crate) fn all_on_standby(tier: &str) -> usize {
    if tier == "namespaces" { 2 } else { 3 }
}

/// Closes the directories of the supervisor from a request, which has its UID.
#[test]
fn directories_that_a_request_closed_are_open_again() {
    if !tiers().contains(&"landlock") {
        return;
    }
    let bench = Bench::new("", MANIFEST);
    let [work, sockets] =
        [bench.path("work"), bench.path("sockets")].map(|p| p.display().to_string());
    let close = format!(
        "chmod 000 {work}/_cmp_server; chmod 000 {work}/_cmp_caches; chmod 000 {sockets}; {MANIFEST}"
    );
    bench.add("closes", "", &close);
    let server = bench.serve("landlock", &[]);
    bench.ask("closes", &[]);
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o700;
    eventually("open directories", || {
        ["work/_cmp_server", "work/_cmp_caches", "sockets"].iter().all(|name| mode(name) == 0o700)
    });
    eventually("an answer", || bench.ask("tried", &[]).code == Some(0));
    server.says("restored access to a directory");
}

/// A supervisor without root cannot open a closed directory of its own.
#[test]
fn a_supervisor_starts_with_directories_that_were_closed() {
    const USER: u32 = 64_999;
    if !tiers().contains(&"landlock") {
        return;
    }
    let bench = Bench::new("", MANIFEST);
    for name in ["work", "work/_cmp_server", "work/_cmp_caches", "sockets"] {
        fs::create_dir(bench.path(name)).unwrap();
        fs::set_permissions(bench.path(name), Permissions::from_mode(0o000)).unwrap();
        std::os::unix::fs::chown(bench.path(name), Some(USER), Some(USER)).unwrap();
    }
    let server = bench.serve_as(USER, "landlock", &["--run-as-uid", &USER.to_string()]);
    assert_eq!(bench.ask("tried", &[]).value("data"), "told", "{}", server.log());
}

#[test]
fn a_work_directory_that_was_removed_is_back() {
    for tier in tiers() {
        let bench = Bench::new("", MANIFEST);
        // As Kubernetes creates volumes.
        fs::create_dir(bench.path("work")).unwrap();
        fs::set_permissions(bench.path("work"), Permissions::from_mode(0o777)).unwrap();
        let _server = bench.serve(tier, &[]);
        remove_at_once(&bench.path("work/_cmp_server"));
        eventually("the directory", || bench.path("work/_cmp_server").exists());
        if tier != "none" {
            remove_at_once(&bench.path("work/_cmp_definitions"));
            let kept = bench.path("work/_cmp_definitions/last_good.json");
            eventually("the last good definitions", || kept.exists());
        }
        assert_eq!(bench.ask("tried", &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn a_work_directory_that_was_moved_fails_a_check_until_it_is_back() {
    let bench = Bench::new("", MANIFEST);
    let server = bench.serve("none", &[]);
    let (path, moved) = (bench.path("work/_cmp_server"), bench.path("work/moved"));
    fs::rename(&path, &moved).unwrap();
    let log = server.says("was moved, or a volume was mounted over it: undo this, or restart");
    assert!(log.contains(r#""check":"work-volume""#), "{log}");
    fs::rename(&moved, &path).unwrap();
    server.says("a check passes again");
    assert_eq!(bench.ask("tried", &[]).value("data"), "told");
}

/// Hides a file and a directory of `/proc`, and makes another read-only, as container
/// runtimes do.
const MASKED: &str = "mount --bind /dev/null /proc/version && mount -t tmpfs tmpfs /proc/fs && \
                      mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
                      exec \"$0\" \"$@\"";

#[test]
fn a_new_proc_hides_what_the_container_hides() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let script = "echo 'kind: A'; echo \"data: '$(cat /proc/version | wc -c) $(ls /proc/fs | wc -l) \
                  $(grep -c \" /proc/sys ro\" /proc/self/mountinfo)'\"";
    let bench = Bench::new("", script);
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", MASKED, env!("CARGO_BIN_EXE_cmp-supervisor"), "serve"]);
    let server = bench.start(command, "namespaces", &[]);
    assert_eq!(bench.ask("tried", &[]).value("data"), "0 0 1", "{}", server.log());
}

/// Somebody with the rights to do so stops the process that kills what an `init` leaves.
#[test]
fn a_stopped_killer_takes_no_lease_away() {
    for tier in tiers().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        let (stays, runs) = (unique(300), unique(60));
        let script = format!("(sleep {stays} > /dev/null 2>&1 &); sleep {runs}; true");
        let bench = Bench::new(&format!("  init: {{command: [sh, -c, '{script}']}}"), MANIFEST);
        let server = bench.serve(tier, &["--exec-timeout", "30s"]);
        let spawner = server.spawner();
        let signal = |pid, signal| kill_process(pid, signal).unwrap();
        thread::scope(|scope| {
            let asked = scope.spawn(|| bench.ask("tried", &["--timeout", "45s"]));
            eventually("init", || sleeper(&runs).is_some());
            let standby = || killers_on_standby(spawner);
            eventually("all on standby", || standby().len() == all_on_standby(tier));
            for pid in standby() {
                signal(Pid::from_raw(pid).unwrap(), Signal::STOP);
            }
            signal(sleeper(&runs).unwrap(), Signal::KILL);
            asked.join().unwrap()
        });
        eventually(&format!("{tier}: the end of the lease"), || sleeper(&stays).is_none());
        eventually("no killer", || children(spawner, &["cmp-killer", "cmp-ender"]).is_empty());
    }
}

/// Attempts to make the spawner fork a worker. A request may come after new processes stand by.
const ATTEMPTS: u32 = 20;

/// Without a process on standby, the spawner forks. Nobody may hold its connection to the
/// supervisor, which would not notice its end.
#[test]
fn no_guard_and_no_init_has_a_socket_of_the_spawner() {
    for tier in tiers().into_iter().filter(|tier| *tier != "uid") {
        let lasts = unique(60);
        let bench = Bench::new("", &format!("exec sleep {lasts}"));
        let server = bench.serve(tier, &[]);
        let spawner = server.spawner();
        let forked = || children(spawner, &["cmp-supervisor", "exe"]);
        let (permanent, own) = (forked(), sockets(spawner));
        let workers = || forked().into_iter().filter(|pid| !permanent.contains(pid));
        let is_forked = (0..ATTEMPTS).any(|_| {
            ask_without_standby(&bench, spawner, &lasts, || {
                // A process that begins to stand by holds them for a moment.
                let holds_none = |pid| sockets(pid).is_disjoint(&own);
                eventually(&format!("{tier}: no copy"), || workers().all(holds_none));
                workers().next().is_some()
            })
        });
        assert!(is_forked, "{tier}");
    }
}

/// Asks while no process stands by, and looks while the command runs.
fn ask_without_standby(
    bench: &Bench,
    spawner: i32,
    time: &str,
    look: impl FnOnce() -> bool,
) -> bool {
    let signal = |pid, signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    thread::scope(|scope| {
        signal(spawner, Signal::STOP);
        for standby in children(spawner, &["cmp-standby"]) {
            signal(standby, Signal::KILL);
        }
        scope.spawn(|| bench.ask("tried", &[]));
        thread::sleep(Duration::from_millis(500));
        signal(spawner, Signal::CONT);
        eventually("the command", || sleeper(time).is_some());
        let seen = look();
        let command = sleeper(time).expect("the command outlives the look");
        kill_process(command, Signal::KILL).unwrap();
        seen
    })
}

/// The sockets of a process, as the links of its descriptors name them.
fn sockets(pid: i32) -> BTreeSet<PathBuf> {
    // None if it has ended.
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// The kernel kills guards last when memory is short, but it does.
#[test]
fn what_a_killed_guard_leaves_is_killed() {
    for tier in tiers().into_iter().filter(|tier| ["landlock", "none"].contains(tier)) {
        let (stays, runs) = (unique(300), unique(60));
        let script = format!("(setsid sleep {stays} > /dev/null 2>&1 &); exec sleep {runs}");
        let bench = Bench::new("", &script);
        let _server = bench.serve(tier, &[]);
        thread::scope(|scope| {
            let asked = scope.spawn(|| bench.ask("tried", &[]));
            eventually("both", || sleeper(&runs).is_some() && sleeper(&stays).is_some());
            let command = sleeper(&runs).unwrap().as_raw_nonzero();
            let status = Fields::status(command.get().cast_unsigned()).unwrap();
            let guard = status.id("PPid").unwrap().cast_signed();
            kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
            assert!(!asked.join().unwrap().error().is_empty(), "{tier}");
        });
        eventually(&format!("{tier}: the end of all"), || sleeper(&stays).is_none());
    }
}
