//! Processes elsewhere on the node, and limits that a container does not see.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    container::Container, plugin::Plugin, processes::Process, request::Call, running::Running,
};

/// Time limit of requests that wait for each other.
const LONG: Duration = Duration::from_mins(3);

/// UID of the supervisor, and of commands in the tier `landlock`.
const USER: u32 = 999;

/// More threads than the limit for a request.
const THREADS: &str = "
import threading, time
for i in range(540): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(\"x\", end=\"\", flush=True)
time.sleep(600)
";

#[test]
fn threads_of_others_with_the_same_user_do_not_count() {
    let plugin = Plugin::new("forking", "(true; true) | cat; echo '{a: 1}'");
    let container = Container::new().user(USER).capabilities(&[]);
    let flags = ["--isolation", "landlock"];
    let Some(pod) = container.start(&[plugin], &flags) else { return };
    let mut other = Command::new("python3");
    other.args(["-c", THREADS]).uid(USER).gid(USER).current_dir("/").stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let answers: Vec<_> = (0..3).map(|_| pod.request("forking").generate()).collect();
    other.kill().unwrap();
    other.wait().unwrap();
    for answer in answers {
        assert_eq!(answer.unwrap(), [r#"{"a":1}"#]);
    }
    pod.assert_baseline();
}

/// Most processes of the Pod: fewer than a crowd, and more than the supervisor needs.
const MOST: &str = "60";

/// Processes of a crowd: its shell, those in the background, and the last one.
const CROWD: usize = 92;

/// A crowd whose shell works as soon as the test has ended its last process.
const BUSY_CROWD: &str = "for i in $(seq 90); do sleep 600 & done; sleep 601; while :; do :; done";

/// Limits with room for a crowd: with those of memory and files that are measured by default,
/// and without them.
const PROCESSES: &str = "limits: {processes: 200}";
const UNMEASURED: &str =
    "limits: {processes: 200, memory: unlimited, disk: unlimited, files: unlimited}";

/// The kernel refuses the process that would kill what the first command has left. The
/// crowd has no limits that somebody would measure.
#[test]
fn a_crowd_ends_that_leaves_no_process_for_a_second_command() {
    let crowd = "for i in $(seq 90); do sleep 600 & done; sleep 600";
    let crowd = Plugin::new("crowd", crowd).spec(UNMEASURED);
    let second = Plugin::new("second", "echo '{a: 1}'").spec("init: {command: [\"true\"]}");
    let Some(pod) = Container::new().start(&[crowd, second], &["--isolation", "uid"]) else {
        return;
    };
    let call = pod.request("crowd").start();
    // One ends the crowd, and two are spare: the first command and the end of its request
    // take them.
    pod.until("the crowd", |pod| pod.tenants().len() == CROWD && standby(pod) == 3);
    pod.groups().limit_pod(MOST);
    let error = pod.request("second").generate().unwrap_err();
    assert!(error.contains("no process can be created"), "{error}");
    assert_crowd(call);
    // Its processes are still there for a moment after its end.
    pod.until("an answer", |pod| pod.request("second").generate().is_ok());
    pod.assert_baseline();
}

/// The kernel refuses the processes that would measure it, and no other request begins.
#[test]
fn a_crowd_ends_that_leaves_no_process_to_measure_it() {
    let crowd = Plugin::new("crowd", BUSY_CROWD).spec(PROCESSES);
    let Some(pod) = Container::new().start(&[crowd], &["--isolation", "uid"]) else { return };
    let call = pod.request("crowd").start();
    pod.until("the crowd", |pod| pod.runs("sleep 601"));
    pod.groups().limit_pod(MOST);
    pod.end("sleep 601");
    assert_crowd(call);
    pod.assert_baseline();
}

/// The processes of a crowd that is ended are still there for a moment.
#[test]
fn no_other_request_ends_for_the_processes_of_a_crowd() {
    let crowd = Plugin::new("crowd", BUSY_CROWD).spec(PROCESSES);
    // It works until the crowd is ended, and needs no further process.
    let other = "trap over=1 USR1; for i in $(seq 70); do sleep 600 >&2 & done; sleep 602; \
                 while [ -z \"$over\" ]; do :; done; echo '{a: 1}'";
    let other = Plugin::new("other", other).spec(PROCESSES);
    let Some(pod) = Container::new().start(&[crowd, other], &["--isolation", "uid"]) else {
        return;
    };
    let calls = ["crowd", "other"].map(|name| pod.request(name).timeout(LONG).start());
    pod.until("both", |pod| pod.runs("sleep 601") && pod.runs("sleep 602"));
    // The other one alone has room.
    pod.groups().limit_pod("120");
    pod.end("sleep 601");
    pod.end("sleep 602");
    let [crowd, other] = calls;
    assert_crowd(crowd);
    let is_other = |tenant: &Process| tenant.command.starts_with("sh -c trap");
    let shell = pod.tenants().into_iter().find(is_other).expect("the other one's shell");
    pod.signal(&shell, Signal::SIGUSR1);
    assert_eq!(other.wait(), Ok(vec![r#"{"a":1}"#.to_owned()]));
    pod.assert_baseline();
}

/// The last pass before a process is refused has counted the crowd while it was small.
#[test]
fn no_other_request_ends_for_a_crowd_that_grows() {
    let grow = "for i in $(seq 50); do sleep 600 & done; sleep 3; \
                for i in $(seq 40); do sleep 600 & sleep 0.02; done; sleep 600 & sleep 600 & wait";
    let crowd = Plugin::new("crowd", grow).spec(UNMEASURED);
    let script = "for i in $(seq 70); do sleep 600 >&2 & done; sleep 45; echo '{a: 1}'";
    let other = Plugin::new("other", script).spec(UNMEASURED);
    let third = Plugin::new("third", "echo '{a: 1}'");
    let plugins = [crowd, other, third];
    let Some(pod) = Container::new().start(&plugins, &["--isolation", "uid"]) else { return };
    let census = census(&pod);
    let other = pod.request("other").timeout(LONG).start();
    pod.until("the other request", |pod| pod.tenants().len() == 72);
    let crowd = pod.request("crowd").timeout(LONG).start();
    pod.until("the growth", |pod| pod.tenants().len() > 54 + 72);
    pod.signal(&census, Signal::SIGSTOP);
    // It starts no further ones: there were fewer before its last two.
    pod.until("the crowd", |pod| pod.tenants().len() == 93 + 72);
    pod.groups().limit_pod(MOST);
    let refused = (0..4).any(|_| pod.request("third").generate().is_err());
    pod.signal(&census, Signal::SIGCONT);
    assert!(refused, "the third request got each process");
    assert_eq!(other.wait(), Ok(vec![r#"{"a":1}"#.to_owned()]));
    assert_crowd(crowd);
    pod.assert_baseline();
}

fn assert_crowd(call: Call) {
    let error = call.wait().unwrap_err();
    assert!(error.contains("processes and threads that the container has"), "{error}");
}

fn standby(pod: &Running) -> usize {
    pod.processes().iter().filter(|process| process.name == "cmp-standby").count()
}

/// The process that counts those of requests. It keeps the name of the spawner.
fn census(pod: &Running) -> Process {
    let spawner = pod.spawner();
    let is_census =
        |process: &Process| process.parent == spawner.pid && process.name == spawner.name;
    pod.processes().into_iter().find(is_census).unwrap()
}
