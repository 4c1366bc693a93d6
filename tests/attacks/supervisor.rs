//! Starts and stops the supervisor under attack.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    processes,
    setting::Setting,
    waiting::{LOOK_AGAIN, PATIENCE, until},
};

/// Lines of the log, in any order, after which it serves. The second one has the address of
/// its HTTP server.
const READY: [&str; 2] = ["\"msg\":\"ready\"", "\"msg\":\"serving metrics and health\""];

/// Exit code if a tier is not available, and the text of the error.
pub(crate) const NO_ISOLATION: i32 = 78;
const NOT_OFFERED: &str = "is not available here";

/// A running supervisor with its own directories.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    pub(crate) log: PathBuf,
}

/// The reason why a supervisor does not serve.
#[derive(Debug)]
pub(crate) enum NotServing {
    /// This machine does not offer the tier.
    NotOffered(String),
    /// The supervisor ended with this exit code and last log line.
    Ended(Option<i32>, String),
    /// The supervisor did not become ready in time.
    Broken(String),
}

/// Options to start a supervisor with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) setting: Setting,
    /// The value of `--isolation`.
    pub(crate) isolation: &'static str,
    /// The parent of its directories `plugins.d`, `sockets` and `work`.
    pub(crate) directory: PathBuf,
    pub(crate) first_uid: u32,
    pub(crate) last_uid: u32,
    pub(crate) run_as: u32,
    pub(crate) more: Vec<String>,
}

impl Options {
    pub(crate) fn command(&self) -> Command {
        let mut command = self.setting.command(self.run_as);
        let at = |name: &str| self.directory.join(name);
        // Of the test directory, only `bin` is on the PATH.
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
            .args(["--http", "127.0.0.1:0"])
            .args(["--log-format", "json", "--drain-timeout", "1s"])
            .args(&self.more);
        command
    }
}

impl Supervisor {
    pub(crate) fn start(options: &Options) -> Result<Self, NotServing> {
        Self::start_as(options.command(), &options.directory)
    }

    /// Starts the supervisor by a command, which may be a wrapper around it.
    pub(crate) fn start_as(mut command: Command, directory: &Path) -> Result<Self, NotServing> {
        let broken = |error: io::Error| NotServing::Broken(error.to_string());
        let log = directory.join("log");
        let file = File::create(&log).map_err(broken)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(broken)?;
        let mut this = Self { child, log };
        let until = Instant::now() + PATIENCE;
        while !READY.iter().all(|line| this.text().contains(line)) {
            if let Ok(Some(status)) = this.child.try_wait() {
                let text = this.text();
                let last = text.lines().last().unwrap_or("no log output").to_owned();
                return Err(match status.code() {
                    // A failed trial of the sandbox has the same code, but does not
                    // mean that the machine lacks the tier.
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

    /// Everything the supervisor has logged so far.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Requests that have ended incompletely, and whose UIDs are not leased again yet.
    pub(crate) fn quarantined(&self) -> usize {
        let text = self.text();
        let began = text.matches("its UID is not leased again until").count();
        began - text.matches("its UID is leased again").count()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The port of its HTTP server. The kernel chooses it: a port that a test had chosen
    /// could be taken before the supervisor binds it.
    pub(crate) fn port(&self) -> Option<u16> {
        let text = self.text();
        let line = text.lines().find(|line| line.contains(READY[1]))?;
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let address: SocketAddr = line["address"].as_str()?.parse().ok()?;
        Some(address.port())
    }

    /// The PID of the spawner, which is the supervisor's only child.
    pub(crate) fn spawner(&self) -> Option<i32> {
        let own = self.pid();
        processes::all().iter().find(|process| process.parent == own).map(|process| process.pid)
    }

    /// Stops the supervisor with SIGTERM, or with SIGKILL after `PATIENCE`.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        // The process may have ended already.
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        let ended = self.wait(PATIENCE);
        if ended.is_none() {
            let _ = self.child.kill();
        }
        ended
    }

    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let mut ended = None;
        until(patience, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        });
        ended
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}
