//! Processes elsewhere on the node.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::{container::Container, plugin::Plugin};

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
