//! Mixed requests of Argo CD's own client for a long time, with reloads.

mod curve;
mod plugins;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde::Deserialize;
use tempfile::TempDir;

use crate::{container::Container, running::Running, skip::skip};
use curve::Curve;

/// The value `full` of this variable makes all requests, without a time limit.
const SWITCH: &str = "CMP_SUPERVISOR_SOAK";

/// Requests of a full run. A short one begins none after `SHORT`.
const REQUESTS: &str = "10000";
const SHORT: &str = "40s";
const FULL: &str = "4h";

/// Requests at a time.
const CLIENTS: &str = "16";

/// Time between two reloads.
const RELOAD: Duration = Duration::from_secs(1);

/// The client's report.
#[derive(Debug, Deserialize)]
struct Report {
    requests: usize,
    unexpected: usize,
    seconds: f64,
    kinds: BTreeMap<String, Line>,
}

/// The result of one kind of request; times are in milliseconds.
#[derive(Debug, Deserialize)]
struct Line {
    requests: usize,
    unexpected: usize,
    p50: u64,
    p99: u64,
    max: u64,
    errors: Option<Vec<String>>,
}

#[test]
fn mixed_requests_for_a_long_time_leave_nothing() {
    let Some(client) = client() else { return };
    let container = Container::new().memory("1Gi").volume_in_memory("512Mi").pids(800);
    let Some(pod) = container.start(&plugins::all(0), &[]) else { return };
    let supervisor = pod.supervisor().pid;
    let mut curve = Curve::default();
    let report = soak(&pod, &client, &mut curve);
    println!("{}{curve}", report.table());
    assert_eq!(report.unexpected, 0, "unexpected errors:\n{}", report.table());
    assert_eq!(pod.supervisor().pid, supervisor, "the supervisor was started again");
    assert_eq!(pod.groups().oom_kills(), 0, "the container's memory was used up");
    pod.assert_baseline();
}

/// Runs the client, reloads, and measures until the client has ended.
fn soak(pod: &Running, client: &Path, curve: &mut Curve) -> Report {
    let within = if is_full() { FULL } else { SHORT };
    // Argo CD's sender leaves an empty directory behind for each archive.
    let leftovers = TempDir::with_prefix("cmp-soak-").unwrap();
    let mut command = Command::new(client);
    command.env("TMPDIR", leftovers.path());
    command.arg("-sockets").arg(pod.file("sockets"));
    command.args(["-requests", REQUESTS, "-clients", CLIENTS, "-within", within]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut generation = 0;
    while child.try_wait().unwrap().is_none() {
        generation += 1;
        pod.update(&plugins::all(generation));
        curve.measure(pod);
        thread::sleep(RELOAD);
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    thread::sleep(RELOAD);
    curve.measure(pod);
    serde_json::from_slice(&output.stdout).unwrap()
}

impl Report {
    fn table(&self) -> String {
        let Self { requests, unexpected, seconds, kinds } = self;
        let mut lines =
            vec![format!("{requests} requests in {seconds:.0} s, {unexpected} unexpected\n")];
        for (name, line) in kinds {
            let Line { requests, unexpected, p50, p99, max, errors } = line;
            let errors = errors.as_deref().unwrap_or_default().join("\n    ");
            let times = format!("p50 {p50} ms, p99 {p99} ms, max {max} ms");
            let counts = format!("{requests}, {unexpected} unexpected");
            lines.push(format!("{name:>22}: {counts}, {times} {errors}\n"));
        }
        lines.concat()
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_full() -> bool {
    env::var_os(SWITCH).is_some_and(|value| value == "full")
}

/// Builds the client, or says why there is none.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn client() -> Option<PathBuf> {
    if env::var_os("CMP_SUPERVISOR_INTEROP").is_some_and(|value| value == "off") {
        skip("CMP_SUPERVISOR_INTEROP is off");
        return None;
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o", ".bin/soak", "./cmd/soak"]).current_dir(&module);
    let Ok(status) = build.status() else {
        skip("needs Go, for Argo CD's client");
        return None;
    };
    assert!(status.success(), "cannot build the client");
    Some(module.join(".bin/soak"))
}
