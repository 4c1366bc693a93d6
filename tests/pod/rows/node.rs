//! Processes elsewhere on the node, and limits that a container does not see.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::{container::Container, plugin::Plugin, running::Running};

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

/// The kernel refuses the process that would kill what the first command has left.
#[test]
fn a_crowd_ends_that_leaves_no_process_for_a_second_command() {
    let crowd = "for i in $(seq 90); do sleep 600 & done; sleep 600";
    let crowd = Plugin::new("crowd", crowd).spec("limits: {processes: 200}");
    let second = Plugin::new("second", "echo '{a: 1}'").spec("init: {command: [\"true\"]}");
    let Some(pod) = Container::new().start(&[crowd, second], &["--isolation", "uid"]) else {
        return;
    };
    let call = pod.request("crowd").start();
    let standby = |pod: &Running| {
        pod.processes().iter().filter(|process| process.name == "cmp-standby").count()
    };
    // One ends the crowd, and two are spare: the first command and the end of its request
    // take them.
    pod.until("the crowd", |pod| pod.tenants().len() == CROWD && standby(pod) == 3);
    pod.groups().limit_pod(MOST);
    let error = pod.request("second").generate().unwrap_err();
    assert!(error.contains("no process can be created"), "{error}");
    // The crowd may not have been counted since it has so many processes, and its processes
    // are still there for a moment after its end.
    pod.until("an answer", |pod| pod.request("second").generate().is_ok());
    let error = call.wait().unwrap_err();
    assert!(error.contains("processes and threads that the container has"), "{error}");
    pod.assert_baseline();
}
