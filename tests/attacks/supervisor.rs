//! The program under attack.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{processes, setting::Setting};

/// How long it may take to serve, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What it ends with where a tier is not to be had.
pub(crate) const NO_ISOLATION: i32 = 78;
const NOT_OFFERED: &str = "is not available here";

/// A supervisor with directories of its own.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    pub(crate) log: PathBuf,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum NotServing {
    /// This machine does not offer the tier.
    NotOffered(String),
    /// It ended with this code.
    Ended(Option<i32>, String),
    /// It never was ready.
    Broken(String),
}

/// How one is started.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) setting: Setting,
    /// As `--isolation` has it.
    pub(crate) isolation: &'static str,
    /// Where its directories are: `plugins.d`, `sockets`, `work`.
    pub(crate) directory: PathBuf,
    pub(crate) first_uid: u32,
    pub(crate) last_uid: u32,
    pub(crate) run_as: u32,
    pub(crate) metrics_port: u16,
    pub(crate) more: Vec<String>,
}

impl Options {
    pub(crate) fn command(&self) -> Command {
        let mut command = self.setting.command(self.run_as);
        let at = |name: &str| self.directory.join(name);
        // Programs are where the PATH says, and nothing else of the directory.
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", at("bin").display());
        command
            .env_clear()
            .env("PATH", path)
            .env("CMP_SUPERVISOR_LOG_LEVEL", "info")
            .arg("serve")
            .args(["--isolation", self.isolation])
            .arg("--plugins-dir")
            .arg(at("plugins.d"))
            .arg("--socket-dir")
            .arg(at("sockets"))
            .arg("--work-dir")
            .arg(at("work"))
            .args(["--uid-range", &format!("{}-{}", self.first_uid, self.last_uid)])
            .args(["--run-as-uid", &self.run_as.to_string()])
            .args(["--http", &format!("127.0.0.1:{}", self.metrics_port)])
            .args(["--log-format", "json", "--drain-timeout", "1s"])
            .args(&self.more);
        command
    }
}

impl Supervisor {
    pub(crate) fn start(options: &Options) -> Result<Self, NotServing> {
        Self::start_as(options.command(), &options.directory)
    }

    /// Starts what may be a wrapper around the program.
    pub(crate) fn start_as(mut command: Command, directory: &Path) -> Result<Self, NotServing> {
        let broken = |error: io::Error| NotServing::Broken(error.to_string());
        let log = directory.join("log");
        let file = File::create(&log).map_err(broken)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(broken)?;
        let mut this = Self { child, log };
        let until = Instant::now() + PATIENCE;
        while !this.text().contains("\"msg\":\"ready\"") {
            if let Ok(Some(status)) = this.child.try_wait() {
                let text = this.text();
                let last = text.lines().last().unwrap_or("without a word").to_owned();
                return Err(match status.code() {
                    // One that attacked itself with success is not a machine
                    // without the tier.
                    Some(NO_ISOLATION) if last.contains(NOT_OFFERED) => {
                        NotServing::NotOffered(last)
                    }
                    code => NotServing::Ended(code, last),
                });
            }
            if Instant::now() > until {
                return Err(NotServing::Broken(format!("not ready: {}", this.text())));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(this)
    }

    /// What it has logged.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The process with the privilege: its only child.
    pub(crate) fn spawner(&self) -> Option<i32> {
        let own = self.pid();
        processes::all().iter().find(|process| process.parent == own).map(|process| process.pid)
    }

    /// Ends it in order, or else by force.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        // It may be gone.
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        let ended = self.wait(PATIENCE);
        if ended.is_none() {
            let _ = self.child.kill();
        }
        ended
    }

    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() > until {
                return None;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}
