//! Boots a virtual machine and reads its results from the console.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{image, kernel::Kernel};
use crate::guest::report::{self, Report};

/// Time limit for all scenarios of a machine. They take about a minute on a machine
/// that does nothing else, and many times as long on a busy one.
const PATIENCE: Duration = Duration::from_mins(20);

/// Lines of the console that a failure shows.
const LAST_LINES: usize = 60;

/// Without it, older kernels give up if the emulator gets no processor time while
/// they test the timer.
const STARVED: &str = "no_timer_check";

const EMULATOR: &str = "qemu-system-x86_64";

/// A machine and, once it has run, the results of its scenarios.
#[derive(Debug)]
pub(super) struct Machine {
    kernel: Kernel,
    scenarios: Vec<&'static str>,
    results: Option<Results>,
}

#[derive(Debug)]
struct Results {
    scenarios: BTreeMap<String, Result<(), String>>,
    console: String,
}

impl Machine {
    /// A machine that runs these scenarios when the first result is asked for.
    pub(super) fn new(kernel: Kernel, scenarios: Vec<&'static str>) -> Result<Self, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the kernels are for x86-64".to_owned());
        }
        let version = Command::new(EMULATOR).arg("--version").stdout(Stdio::null()).status();
        version.map_err(|error| format!("{EMULATOR}: {error}: install qemu-system-x86"))?;
        Ok(Self { kernel, scenarios, results: None })
    }

    /// The result of a scenario.
    pub(super) fn result(&mut self, scenario: &str) -> Result<(), String> {
        let results = match &self.results {
            Some(results) => results,
            None => self.results.insert(self.boot()?),
        };
        let lost = || Err(format!("no result; the console's last lines:\n{}", results.console));
        results.scenarios.get(scenario).cloned().unwrap_or_else(lost)
    }

    fn boot(&self) -> Result<Results, String> {
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let initrd = directory.path().join("initrd");
        fs::write(&initrd, image::build(&self.kernel)?).map_err(|error| error.to_string())?;
        let scenarios = self.scenarios.join(",");
        let mut machine = Command::new(EMULATOR)
            // The emulator works everywhere; hardware support may be nested and
            // broken.
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536", "-smp", "2"])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(&initrd)
            .arg("-append")
            .arg(format!("console=ttyS0 quiet panic=1 {STARVED} scenarios={scenarios}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("{EMULATOR}: {error}"))?;
        let console = machine.stdout.take().expect("a pipe");
        let machine = Arc::new(Mutex::new(machine));
        let watch = guard(Arc::clone(&machine));
        let mut results = Results { scenarios: BTreeMap::new(), console: String::new() };
        let mut last: Vec<String> = Vec::new();
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if is_verbose() {
                eprintln!("{line}");
            }
            if let Some(Report { scenario, result }) = report::read(&line) {
                results.scenarios.insert(scenario, result);
            }
            last.push(line);
        }
        // The console is closed, so the machine has ended.
        let _ = watch.join();
        let from = last.len().saturating_sub(LAST_LINES);
        results.console = last.split_off(from).join("\n");
        Ok(results)
    }
}

/// Shows the console with `CMP_SUPERVISOR_VM=verbose`.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_verbose() -> bool {
    std::env::var_os("CMP_SUPERVISOR_VM").is_some_and(|value| value == "verbose")
}

/// Ends a machine that takes too long.
fn guard(machine: Arc<Mutex<Child>>) -> thread::JoinHandle<()> {
    let until = Instant::now() + PATIENCE;
    thread::spawn(move || {
        loop {
            let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(machine.try_wait(), Ok(None)) {
                return;
            }
            if Instant::now() > until {
                let _ = machine.kill();
            }
            drop(machine);
            thread::sleep(Duration::from_millis(100));
        }
    })
}
