//! The system calls and processes of a small request.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    sandbox_settings::bench::{Bench, Server},
    skip::skip,
    spawned::{all_children, children},
    tool,
    waiting::{eventually, retry},
};

/// Requests of the test.
const REQUESTS: usize = 40;

/// Requests that may need fewer system calls than the one that counts. What is left to do
/// for one may be counted for the next. On a busy machine, most of the traced requests
/// reach times after which more is done for them.
const CHEAPER: usize = REQUESTS / 10;

/// Most processes for a request: the one that stands by to become the worker of a
/// later request.
const MAX_FORKS: usize = 1;

/// Processes of the spawner that work for requests and exist before they come.
const STANDING_BY: [&str; 2] = ["cmp-standby", "cmp-cleaner"];

/// Processes that the spawner has as long as it runs: the census and the cleaner.
const PERMANENT: usize = 2;

/// Most system calls for a request, apart from [`MACHINE`] and [`SCHEDULING`].
/// There were 226 to 255 when this was written, alone and beside six busy processes.
const MAX_CALLS: usize = 270;

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
    bench.ask("tried", &[]).manifests();
    let requests = trace(&strace, &bench, &server);
    let processes: usize = requests.iter().map(|calls| sum(calls, &FORKS)).sum();
    // The first worker may have begun to stand by before the tracer came.
    let mut traced: Vec<_> = requests.iter().filter(|calls| calls.contains_key("execve")).collect();
    traced.sort_by_key(|calls| own(calls));
    let calls = *traced.get(CHEAPER).expect("workers that are traced");
    let (processes, own) = (processes / REQUESTS, own(calls));
    println!("{processes} processes and {own} system calls: {calls:?}");
    assert!(processes <= MAX_FORKS && own <= MAX_CALLS, "{processes} and {own}: {calls:?}");
}

/// System calls of each of this many requests, by name.
fn trace(strace: &Path, bench: &Bench, server: &Server) -> Vec<BTreeMap<String, usize>> {
    // Not beside the definitions, where it would be noticed as a change.
    let place = tempfile::tempdir().unwrap();
    let record = place.path().join("calls");
    wait_for_two_on_standby(server);
    let pids = serving(server);
    let mut tracer = Command::new(strace)
        .args(["-f", "-qq", "-ttt", "-e", "signal=none", "-o"])
        .arg(&record)
        .args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until_traced(&pids, &mut tracer);
    let begins: Vec<_> = (0..REQUESTS).map(|_| ask_alone(bench, server)).collect();
    wait_for_two_on_standby(server);
    Command::new("kill").args(["-INT", &tracer.id().to_string()]).status().unwrap();
    tracer.wait().unwrap();
    count(&fs::read_to_string(&record).unwrap(), &begins)
}

/// Asks once nothing is left to do for the request before. Returns the time.
fn ask_alone(bench: &Bench, server: &Server) -> f64 {
    let spawner = server.spawner();
    eventually("the end of the request before", || {
        let standing_by = children(spawner, &STANDING_BY[..1]).len();
        standing_by >= 2 && standing_by + PERMANENT == all_children(spawner).len()
    });
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    bench.ask("tried", &[]).manifests();
    begin.as_secs_f64()
}

/// System calls of a request apart from those that vary.
fn own(calls: &BTreeMap<String, usize>) -> usize {
    calls.values().sum::<usize>() - sum(calls, &MACHINE) - sum(calls, &SCHEDULING)
}

fn sum(calls: &BTreeMap<String, usize>, names: &[&str]) -> usize {
    names.iter().filter_map(|name| calls.get(*name)).sum()
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
    let spawner = server.spawner();
    bench.ask("tried", &[]).manifests();
    wait_for_two_on_standby(&server);
    (server, spawner)
}

#[track_caller]
fn wait_for_two_on_standby(server: &Server) {
    retry(|| match children(server.spawner(), &STANDING_BY[..1]).len() {
        2 => Ok(()),
        number => Err(format!("two processes that stand by, not {number}")),
    });
}

/// The supervisor, the spawner, and what stands by for requests.
fn serving(server: &Server) -> Vec<i32> {
    let spawner = server.spawner();
    let own = [server.pid().cast_signed(), spawner].into_iter();
    own.chain(children(spawner, &STANDING_BY)).collect()
}

/// Waits until these processes are traced.
fn wait_until_traced(pids: &[i32], tracer: &mut Child) {
    let is_traced = |pid: &i32| {
        // A process that was one too many may have ended.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    };
    eventually("strace", || {
        assert!(tracer.try_wait().unwrap().is_none(), "strace cannot trace the server");
        pids.iter().all(is_traced)
    });
}

/// System calls by name, until a process becomes a command, of the requests that began at
/// these times.
fn count(record: &str, begins: &[f64]) -> Vec<BTreeMap<String, usize>> {
    let mut commands = HashSet::new();
    let mut requests = vec![BTreeMap::new(); begins.len()];
    for line in record.lines() {
        let Some((pid, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((time, call)) = rest.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        // The rest of a call that another process interrupted begins with `<...`.
        let Some((name, _)) = call.split_once('(') else { continue };
        if name.starts_with('<') || commands.contains(pid) {
            continue;
        }
        let time: f64 = time.parse().unwrap();
        // None before the first request.
        let Some(request) = begins.partition_point(|begin| *begin <= time).checked_sub(1) else {
            continue;
        };
        *requests[request].entry(name.to_owned()).or_default() += 1;
        if name == "execve" && call.contains("sh\"") {
            commands.insert(pid);
        }
    }
    requests
}
