//! The system calls and processes of a small request.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    sandbox_settings::bench::{Bench, Server},
    skip::skip,
    spawned::children,
    tool,
    waiting::{eventually, retry},
};

/// Requests of the test: what the supervisor does beside requests hardly counts.
const REQUESTS: usize = 20;

/// Most times that they are counted, until once they are cheap.
const ROUNDS: usize = 12;

/// Most processes for each request: the one that stands by to become the worker of a
/// later request.
const MAX_FORKS: usize = 1;

/// Processes of the spawner that work for requests and exist before they come.
const STANDING_BY: [&str; 2] = ["cmp-standby", "cmp-cleaner"];

/// Most system calls for each request, apart from [`MACHINE`] and [`SCHEDULING`].
/// There were 237 when this was written.
const MAX_CALLS: usize = 280;

/// System calls whose number depends on the directories of this machine: rules of
/// Landlock, and the check of each. A debug build checks descriptors with `fcntl`.
const MACHINE: [&str; 5] = ["fcntl", "landlock_add_rule", "newfstatat", "readlink", "statx"];

/// System calls whose number depends on the order in which processes run.
const SCHEDULING: [&str; 9] = [
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "madvise",
    "poll",
    "restart_syscall",
    "sched_yield",
    "wait4",
    "waitid",
];

/// System calls that create processes.
const FORKS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

#[test]
fn a_small_request_needs_one_process_and_few_system_calls() {
    let Some(strace) = tool::find("strace") else { return skip("strace is not installed") };
    if !rustix::process::getuid().is_root() {
        return skip("needs root: requests have UIDs of their own");
    }
    // Tracing slows the command down, so its output is short.
    let bench = Bench::new("", "echo 'kind: A'");
    let server = bench.serve("uid", &[]);
    for _ in 0..REQUESTS {
        bench.ask("tried", &[]).manifests();
    }
    // On a busy machine, traced requests reach times after which more is done for them.
    let is_small = |(forks, own): (usize, usize)| forks <= MAX_FORKS && own <= MAX_CALLS;
    let counted = (0..ROUNDS).map(|_| cost(&strace, &bench, &server));
    let too_many: Vec<_> = counted.take_while(|cost| !is_small(*cost)).collect();
    assert!(too_many.len() < ROUNDS, "processes and system calls: {too_many:?}");
}

/// Processes and system calls for each request, of this many requests.
fn cost(strace: &Path, bench: &Bench, server: &Server) -> (usize, usize) {
    // Not beside the definitions, where it would be noticed as a change.
    let place = tempfile::tempdir().unwrap();
    let record = place.path().join("calls");
    // Surplus processes end, and a new one would not be traced.
    wait_for_two_on_standby(server);
    let pids = serving(server);
    let mut tracer = Command::new(strace)
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&record)
        .args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until_traced(&pids, &mut tracer);
    for _ in 0..REQUESTS {
        bench.ask("tried", &[]).manifests();
    }
    Command::new("kill").args(["-INT", &tracer.id().to_string()]).status().unwrap();
    tracer.wait().unwrap();
    let record = fs::read_to_string(&record).unwrap();
    let calls = count(&record);
    let of = |name: &&str| calls.get(*name).copied().unwrap_or_default();
    let forks: usize = FORKS.iter().map(of).sum();
    let apart: usize = MACHINE.iter().chain(&SCHEDULING).map(of).sum();
    let all: usize = calls.values().sum();
    let (forks, own) = (forks / REQUESTS, (all - apart) / REQUESTS);
    println!("{forks} processes and {own} system calls for each request: {calls:?}");
    assert!(of(&"execve") >= REQUESTS, "the workers were not traced: {calls:?}");
    (forks, own)
}

/// A request that outlasts the time after which spare processes end.
#[test]
fn a_long_request_needs_few_processes_and_no_processor_time_of_the_spawner() {
    if !rustix::process::getuid().is_root() {
        return skip("needs root: requests have UIDs of their own");
    }
    let (_server, spawner) = two_stand_by_after("sleep 4");
    let stat = fs::read_to_string(format!("/proc/{spawner}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // A hundred make a second. It needs less than a fifth of one, or, if it never
    // sleeps, all that it gets.
    assert!(ticks < 100, "the spawner took {ticks} ticks for one request");
}

#[test]
fn processes_that_a_slow_request_needed_end_soon() {
    if !rustix::process::getuid().is_root() {
        return skip("needs root: requests have UIDs of their own");
    }
    // Longer than the spawner waits with its next process.
    two_stand_by_after("sleep 0.3");
}

/// Starts a server that renders with this script once, and waits until two processes
/// stand by. Returns the spawner, too.
#[track_caller]
fn two_stand_by_after(script: &str) -> (Server, i32) {
    let bench = Bench::new("", &format!("{script}; echo 'kind: A'"));
    let server = bench.serve("uid", &[]);
    let spawner = server.spawner().as_raw_nonzero().get();
    bench.ask("tried", &[]).manifests();
    wait_for_two_on_standby(&server);
    (server, spawner)
}

#[track_caller]
fn wait_for_two_on_standby(server: &Server) {
    let spawner = server.spawner().as_raw_nonzero().get();
    let standing_by = || children(spawner, &STANDING_BY[..1]).len();
    retry(|| match standing_by() {
        2 => Ok(()),
        number => Err(format!("two processes that stand by, not {number}")),
    });
}

/// The supervisor, the spawner, and what stands by for requests.
fn serving(server: &Server) -> Vec<i32> {
    let spawner = server.spawner().as_raw_nonzero().get();
    let own = [server.pid().cast_signed(), spawner].into_iter();
    own.chain(children(spawner, &STANDING_BY)).collect()
}

/// Waits until these processes are traced.
fn wait_until_traced(pids: &[i32], tracer: &mut Child) {
    let is_traced = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    eventually("strace", || {
        assert!(tracer.try_wait().unwrap().is_none(), "strace cannot trace the server");
        pids.iter().all(is_traced)
    });
}

/// System calls by name, until a process becomes a command.
fn count(record: &str) -> BTreeMap<&str, usize> {
    let mut commands = HashSet::new();
    let mut calls = BTreeMap::new();
    for line in record.lines() {
        let Some((pid, call)) = line.split_once(char::is_whitespace) else { continue };
        // The rest of a call that another process interrupted begins with `<...`.
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        if name.starts_with('<') || commands.contains(pid) {
            continue;
        }
        *calls.entry(name).or_default() += 1;
        if name == "execve" && call.contains("sh\"") {
            commands.insert(pid);
        }
    }
    calls
}
