//! Has Argo CD judge the binary: runs the Go tests of `tests/interop`.
//!
//! They need Go, and the first time they build Argo CD itself. Where there is
//! no Go this says so, and nothing else.

#![expect(clippy::print_stdout, reason = "a test program reports on standard output")]
#![expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

/// Longest run: a cold build of Argo CD takes 3 minutes on two cores, the tests
/// as long again.
const TIMEOUT: &str = "30m";

/// Says that Argo CD is to be left out, whatever there is.
const SWITCH: &str = "CMP_SUPERVISOR_INTEROP";

/// One run of the Go tests.
struct Run {
    /// For `--isolation`; `None` lets the supervisor choose the best.
    isolation: Option<&'static str>,
    /// Which tests.
    only: &'static str,
}

/// Every test with the best isolation there is; and what depends on isolation
/// with the others too.
const RUNS: [Run; 3] = [
    Run { isolation: None, only: "." },
    Run { isolation: Some("uid"), only: "TestOurs|TestGenerate|Deadline" },
    Run { isolation: Some("landlock"), only: "TestOurs|TestGenerate|Deadline" },
];

fn main() -> ExitCode {
    println!("\nrunning Argo CD's client, cmp-server and repo-server against the binary");
    if let Some(reason) = reason_to_skip() {
        println!("skipped: {reason}");
        println!("skipped: so nothing is known of how Argo CD itself gets on with this build\n");
        return ExitCode::SUCCESS;
    }
    println!("the first time this builds Argo CD, which takes some minutes and 3.4 GB");
    let passed = RUNS.iter().all(|run| match run.execute() {
        Ok(passed) => passed,
        Err(error) => {
            println!("cannot run the Go tests: {error}");
            false
        }
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn reason_to_skip() -> Option<String> {
    if std::env::var_os(SWITCH).is_some_and(|value| value == "off") {
        return Some(format!("{SWITCH} is off"));
    }
    // A filter or a listing is meant for tests by name, which these are not.
    if let Some(argument) = std::env::args().nth(1) {
        return Some(format!("all or nothing; `{argument}` asks for a part"));
    }
    let go = Command::new("go").arg("version").output();
    let has_go = go.is_ok_and(|output| output.status.success());
    (!has_go).then(|| "go is not installed: Argo CD is written in it".to_owned())
}

impl Run {
    /// Runs the tests, tells of failures in full, and of skips with their reason.
    fn execute(&self) -> io::Result<bool> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let mut go = Command::new("go");
        go.args(["test", "-v", "-count=1", "-timeout", TIMEOUT, "-run", self.only, "."])
            .current_dir(module)
            .env("CMP_SUPERVISOR_BIN", env!("CARGO_BIN_EXE_cmp-supervisor"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(isolation) = self.isolation {
            go.env("CMP_SUPERVISOR_ISOLATION", isolation);
        }
        let mut child = go.spawn()?;
        let mut tally = Tally::default();
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n') {
                tally.read(&String::from_utf8_lossy(&line?));
            }
        }
        let passed = child.wait()?.success() && tally.failed == 0 && tally.passed > 0;
        tally.tell(self, passed);
        Ok(passed)
    }
}

/// What a run printed so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    reasons: BTreeSet<String>,
    /// Of the test that is running, in case it fails.
    pending: Vec<String>,
}

/// Lines kept of one test: a failing one says what matters at its end.
const MAX_PENDING: usize = 4000;

impl Tally {
    fn read(&mut self, line: &str) {
        let verdict = line.trim_start();
        if let Some(reason) = line.split_once("skipped: ") {
            self.reasons.insert(reason.1.to_owned());
        }
        if self.pending.len() < MAX_PENDING {
            self.pending.push(line.to_owned());
        }
        if verdict.starts_with("--- PASS") {
            self.passed += 1;
        } else if verdict.starts_with("--- SKIP") {
            self.skipped += 1;
        } else if verdict.starts_with("--- FAIL") {
            self.failed += 1;
        }
        if line.starts_with("--- FAIL") || line.starts_with("panic:") {
            self.progress("F\n");
            println!("{}", self.pending.join("\n"));
        }
        if line.starts_with("--- ") {
            self.progress(".");
            self.pending.clear();
        }
    }

    /// A sign of life; a log file needs none.
    #[expect(clippy::unused_self, reason = "a tally is what reports")]
    fn progress(&self, sign: &str) {
        if io::stdout().is_terminal() {
            print!("{sign}");
            let _ = io::stdout().flush();
        }
    }

    fn tell(&self, run: &Run, passed: bool) {
        if !passed {
            println!("{}", self.pending.join("\n"));
        }
        for reason in &self.reasons {
            println!("skipped: {reason}");
        }
        let isolation = run.isolation.unwrap_or("the best isolation there is");
        let result = if passed { "ok" } else { "FAILED" };
        let Self { passed, failed, skipped, .. } = self;
        println!(
            "Argo CD with {isolation}: {result}. {passed} passed; {failed} failed; {skipped} skipped"
        );
    }
}
