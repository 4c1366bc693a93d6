//! Runs the Go tests of `tests/interop` against the binary.
//!
//! They need Go, and the first run builds Argo CD. Without Go, this only prints
//! that the tests are skipped, or fails if `CMP_SUPERVISOR_TESTS` is `all`.

#![expect(clippy::print_stdout, reason = "a test program reports on standard output")]
#![expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
};

/// Time limit of one run. A cold build of Argo CD takes 3 minutes on two cores, the tests
/// take as long again, and both several times as long on a busy machine.
const TIMEOUT: &str = "2h";

/// The value `off` of this variable skips these tests.
const SWITCH: &str = "CMP_SUPERVISOR_INTEROP";

/// The value `all` of this variable makes a failure of what is skipped.
const WANTED: &str = "CMP_SUPERVISOR_TESTS";

/// One run of the Go tests.
struct Run {
    /// Value for `--isolation`; `None` for the supervisor's choice, the best.
    isolation: Option<&'static str>,
    /// Pattern of the tests to run.
    only: &'static str,
    /// Makes fewer repetitions where one run with many is enough.
    is_short: bool,
}

/// Tests that depend on the isolation.
const ISOLATED: &str = "TestOurs|TestGenerate|Deadline";

/// All tests run with the best available isolation.
const WHOLE: Run = Run { isolation: None, only: ".", is_short: false };

/// Those that depend on the isolation also run with the others, side by side, because
/// they wait most of their time.
const OTHERS: [Run; 2] = [
    Run { isolation: Some("uid"), only: ISOLATED, is_short: true },
    Run { isolation: Some("landlock"), only: ISOLATED, is_short: true },
];

fn main() -> ExitCode {
    println!("\nrunning the tests with Argo CD's client, cmp-server and repo-server");
    if let Some(reason) = reason_to_skip() {
        println!("skipped: {reason}");
        println!("skipped: so nothing is known of how Argo CD itself gets on with this build\n");
        return if is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    println!("the first time this builds Argo CD, which takes some minutes and 3.4 GB");
    let passed = WHOLE.passes() && others_pass();
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn others_pass() -> bool {
    thread::scope(|scope| {
        let runs = OTHERS.each_ref().map(|run| scope.spawn(|| run.passes()));
        let results = runs.map(|run| run.join().unwrap_or(false));
        results.iter().all(|passed| *passed)
    })
}

/// True if skipping is a failure. A filter is a wish, not something that is missing.
fn is_failure() -> bool {
    let are_all_wanted = std::env::var_os(WANTED).is_some_and(|value| value == "all");
    let is_failure = are_all_wanted && std::env::args().nth(1).is_none();
    if is_failure {
        println!("FAILED: {WANTED}=all allows no skipped tests");
    }
    is_failure
}

fn reason_to_skip() -> Option<String> {
    if std::env::var_os(SWITCH).is_some_and(|value| value == "off") {
        return Some(format!("{SWITCH} is off"));
    }
    // These tests have no names that a filter or a list could use.
    if let Some(argument) = std::env::args().nth(1) {
        return Some(format!("these tests cannot be filtered by `{argument}`"));
    }
    let go = Command::new("go").arg("version").output();
    let has_go = go.is_ok_and(|output| output.status.success());
    (!has_go).then(|| "go is not installed: Argo CD is written in it".to_owned())
}

impl Run {
    fn passes(&self) -> bool {
        self.execute().unwrap_or_else(|error| {
            println!("cannot run the Go tests: {error}");
            false
        })
    }

    /// Runs the tests; prints failures in full, and skipped tests with the reason.
    fn execute(&self) -> io::Result<bool> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let mut go = Command::new("go");
        go.args(["test", "-v", "-count=1", "-timeout", TIMEOUT, "-run", self.only, "."])
            .current_dir(module)
            .env("CMP_SUPERVISOR_BIN", env!("CARGO_BIN_EXE_cmp-supervisor"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if self.is_short {
            go.arg("-short");
        }
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

/// The output of a run so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    reasons: BTreeSet<String>,
    /// Lines of the running test, which are printed if it fails.
    pending: Vec<String>,
}

/// Lines kept of one test; the cause of a failure is at its end.
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

    /// Shows progress on a terminal; a log file needs none.
    #[expect(clippy::unused_self, reason = "called on the tally for brevity")]
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
