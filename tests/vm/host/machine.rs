//! Boots a virtual machine and reads its results from the console.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{image, kernel::Kernel, node::Parts};
use crate::guest::{self, report, report::Report};

/// Time limit for all scenarios of a machine. They take about a minute on a machine
/// that does nothing else, and several times as long on a busy one.
const WHOLE: Duration = Duration::from_hours(1);

/// Longest time without a line on the console: a scenario that takes longer than
/// its own limit reports it.
const SILENCE: Duration = guest::SCENARIO.saturating_add(Duration::from_mins(1));

/// Time between two looks at the emulator.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Lines of the console that a failure shows.
const LAST_LINES: usize = 60;

/// Longest line of the console that is kept.
const LONGEST_LINE: u64 = 1 << 20;

/// Without `no_timer_check`, older kernels give up if the emulator gets no processor
/// time while they test the timer. Nobody in the machine is to be protected from what
/// `mitigations` are against, and they take time.
const CONSOLE: &str = "console=ttyS0 quiet panic=1 no_timer_check mitigations=off";

/// Every feature of the emulator, without those that programs and kernels use to be fast
/// and that take longer to emulate than what they replace: long vectors, copies of bytes
/// instead of words, and a fifth level of page tables. A node starts in half the time.
const CPU: &str = "max,-avx,-avx2,-erms,-fsrm,-la57";

/// Processors of a machine and of a node, whose programs take longer on two: the emulator
/// runs one at a time.
const PROCESSORS: &str = "2";
const NODE_PROCESSORS: &str = "1";

/// Memory of a machine and of a node, in MiB.
const MEMORY: &str = "1536";
const NODE_MEMORY: &str = "4096";

/// Boots from the disk of a node.
const ROOT: &str = "root=/dev/nvme0n1 rootfstype=ext4 rw";

const EMULATOR: &str = "qemu-system-x86_64";

/// A machine that runs its scenarios in the background.
#[derive(Debug)]
pub(super) struct Machine {
    shared: Arc<Shared>,
    emulator: Arc<Mutex<Child>>,
    /// Holds the file system until the machine has ended.
    _directory: TempDir,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    results: BTreeMap<String, Result<(), String>>,
    /// The last lines.
    console: VecDeque<String>,
    /// When the last line came.
    heard: Option<Instant>,
    /// The reason why no more results come.
    end: Option<String>,
}

impl Machine {
    /// Finds out whether this machine can emulate others.
    pub(super) fn check() -> Result<(), String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the kernels are for x86-64".to_owned());
        }
        let version = Command::new(EMULATOR).arg("--version").stdout(Stdio::null()).status();
        version.map(drop).map_err(|error| format!("{EMULATOR}: {error}: install qemu-system-x86"))
    }

    /// Starts a machine, or a node, that runs these scenarios. The error says what this
    /// machine lacks.
    pub(super) fn start(
        kernel: &Kernel,
        node: Option<&Parts>,
        scenarios: &[&str],
    ) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let scenarios = format!("scenarios={} files={}", scenarios.join(","), image::files());
        let mut command = Command::new(EMULATOR);
        if let Some(parts) = node {
            let disk = parts.disk(directory.path())?;
            command
                .arg("-drive")
                .arg(format!("file={},format=raw,if=none,id=disk,cache=unsafe", disk.display()))
                .args(["-device", "nvme,drive=disk,serial=disk"])
                .args(["-m", NODE_MEMORY, "-smp", NODE_PROCESSORS, "-append"])
                .arg(format!("{CONSOLE} {ROOT} init={} {scenarios}", guest::PROGRAM));
        } else {
            let initrd = directory.path().join("initrd");
            fs::write(&initrd, image::build(kernel)?).map_err(|error| error.to_string())?;
            command.arg("-initrd").arg(&initrd);
            command
                .args(["-m", MEMORY, "-smp", PROCESSORS, "-append"])
                .arg(format!("{CONSOLE} {scenarios}"));
        }
        let mut emulator = command
            // The emulator works everywhere; hardware support may be nested and
            // broken. With a thread for each processor, its versions before 8.1 sometimes
            // translate code that another processor changes at that moment, and the kernel
            // ends at an `int3` of its own.
            .args(["-accel", "tcg,thread=single", "-cpu", CPU])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&kernel.image)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("{EMULATOR}: {error}"))?;
        let console = emulator.stdout.take().expect("a pipe");
        let shared = Arc::new(Shared::default());
        let emulator = Arc::new(Mutex::new(emulator));
        let (to, of) = (Arc::clone(&shared), Arc::clone(&emulator));
        let reader = thread::spawn(move || to.read(console));
        let watched = Arc::clone(&shared);
        thread::spawn(move || watched.watch(&of, reader));
        Ok(Self { shared, emulator, _directory: directory })
    }

    /// Waits until the machine has ended.
    pub(super) fn wait(&self) {
        let is_open = |state: &mut State| state.end.is_none();
        let limit = WHOLE.saturating_add(SILENCE);
        drop(self.shared.changed.wait_timeout_while(self.shared.lock(), limit, is_open));
    }

    /// Waits for the result of a scenario.
    pub(super) fn result(&self, scenario: &str) -> Result<(), String> {
        let is_open =
            |state: &mut State| !state.results.contains_key(scenario) && state.end.is_none();
        // The watch ends the machine earlier.
        let limit = WHOLE.saturating_add(SILENCE);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), limit, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        state.results.get(scenario).cloned().unwrap_or_else(|| {
            let end = state.end.as_deref().unwrap_or("the machine neither answers nor ends");
            let console = Vec::from(state.console.clone()).join("\n");
            Err(format!("no result: {end}; the console's last lines:\n{console}"))
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut emulator = lock(&self.emulator);
        let _ = emulator.kill();
        let _ = emulator.wait();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reads the console until the emulator closes it.
    fn read(&self, console: ChildStdout) {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|n| n > 0)
        {
            self.hear(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }

    fn hear(&self, line: &str) {
        if is_verbose() {
            eprintln!("{line}");
        }
        let mut state = self.lock();
        if let Some(Report { scenario, result }) = report::read(line) {
            state.results.insert(scenario, result);
        }
        state.heard = Some(Instant::now());
        state.console.push_back(line.to_owned());
        if state.console.len() > LAST_LINES {
            state.console.pop_front();
        }
        self.changed.notify_all();
    }

    /// Waits for the end of the emulator, and ends it if it takes too long.
    fn watch(&self, emulator: &Mutex<Child>, reader: JoinHandle<()>) {
        let started = Instant::now();
        let end = loop {
            if let Ok(Some(status)) = lock(emulator).try_wait() {
                break format!("the machine ended after {:.0?} ({status})", started.elapsed());
            }
            let heard = self.lock().heard.unwrap_or(started);
            let limit = [(started, WHOLE, "ran for"), (heard, SILENCE, "wrote nothing for")];
            let passed = limit.into_iter().find(|(since, limit, _)| since.elapsed() > *limit);
            if let Some((_, limit, what)) = passed {
                let _ = lock(emulator).kill();
                break format!("the machine {what} {limit:?} and was stopped");
            }
            thread::sleep(LOOK_AGAIN);
        };
        // The last lines may not have been read yet. A reader that has panicked reads no more.
        let _ = reader.join();
        self.lock().end = Some(end);
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the console with `CMP_SUPERVISOR_VM=verbose`.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_verbose() -> bool {
    std::env::var_os("CMP_SUPERVISOR_VM").is_some_and(|value| value == "verbose")
}
