//! A private supervisor: the same program as `serve`, in temporary directories.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use cmp_sandbox::{PRIVATE, Shortfall, Tier};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use thiserror::Error;
use tokio::{
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::{copies::Copies, report::Report};
use crate::{
    config::Application,
    event::{Event, Events},
    loader::{NoSnapshot, Snapshot},
    plugin::{MAX_SOCKET_PATH, PluginName},
};

/// Time limit for a private supervisor's start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a private supervisor's end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two signals to a supervisor that is dropped.
const SIGNAL_PAUSE: Duration = Duration::from_millis(50);

/// Name of the directory for sockets. It is short, so that each plugin whose socket fits into
/// Argo CD's directory can be served below `/tmp`.
const SOCKETS: &str = "s";

/// A private supervisor, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Private {
    child: Child,
    events: Events<ChildStdout>,
    directory: TempDir,
    /// A lock on the directory: `serve` removes one that nobody has locked.
    _lock: File,
    /// Definitions that it does not serve.
    left_out: Vec<String>,
}

/// Choice to report refused accesses of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// Report refused accesses.
    On,
    /// Do not report them.
    Off,
}

/// Settings of a private supervisor.
#[derive(Debug)]
pub(super) struct Setup<'s> {
    pub(super) options: &'s Application,
    pub(super) observation: Observation,
    /// Name of the only plugin to serve; `None` for all.
    pub(super) plugin: Option<&'s str>,
    /// Variables in addition to those of this process.
    pub(super) environment: &'s [(String, String)],
}

/// A private supervisor could not be started.
#[derive(Debug, Error)]
pub enum NotPrivate {
    /// The operating system refused.
    #[error("cannot start a private supervisor: {0}")]
    Io(#[from] io::Error),
    /// Its directory cannot be created.
    #[error(
        "cannot start a private supervisor: {0}: set TMPDIR to a directory that you can write to"
    )]
    Temporary(io::Error),
    /// The definitions cannot be read.
    #[error("{0}: set --plugins-dir to the directory of your definitions")]
    Definitions(#[from] NoSnapshot),
    /// No plugin's socket fits into its directory.
    #[error(
        "cannot serve plugin `{plugin}` here: the path of its socket would have {length} bytes, and \
         the limit is {MAX_SOCKET_PATH}: set TMPDIR to a shorter path, or shorten the name"
    )]
    LongPath {
        /// The plugin.
        plugin: PluginName,
        /// Length of the path in bytes.
        length: usize,
    },
    /// It reported the reason.
    #[error("{reason}")]
    Failed {
        /// The reason and the remedy.
        reason: String,
        /// The reasons why each requested tier is not available, if that is the cause.
        shortfalls: Vec<Shortfall>,
    },
    /// It ended without reporting a reason. It may have written to standard error.
    #[error("the private supervisor ended before it was ready: {0}")]
    Silent(ExitStatus),
    /// It exceeded the time limit.
    #[error("the private supervisor was not ready within {} s", START_TIMEOUT.as_secs())]
    Slow,
}

impl Setup<'_> {
    fn command(&self, directory: &Path, copies: &Copies) -> Command {
        let isolation = self.options.isolation;
        let mut command = command(&copies.directory, &directory.join(SOCKETS), directory);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["--max-requests", "2", "--isolation", isolation.as_str()])
            .args(["--request-cgroups", "off"]);
        let plugins = self.options.plugins_dir();
        for script in &copies.scripts {
            command.arg("--script").arg(plugins.join(script));
        }
        if self.observation == Observation::On {
            let timeout = format!("{}ms", self.options.timeout.0.as_millis());
            command.arg("--observe").arg("--exec-timeout").arg(timeout);
        }
        if isolation.0 == Some(Tier::None) {
            command.arg("--accept-no-isolation");
        }
        command
    }
}

impl Private {
    /// Starts a supervisor for the plugins of a directory, and waits until it serves them.
    pub(super) async fn start(setup: &Setup<'_>, report: &mut Report) -> Result<Self, NotPrivate> {
        let directory = TempDir::with_prefix(PRIVATE).map_err(NotPrivate::Temporary)?;
        // The UIDs of requests must be able to enter it.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let snapshot = Snapshot::read(&setup.options.plugins_dir())?;
        let copies = Copies::make(snapshot, directory.path(), setup.plugin, report)?;
        let command = setup.command(directory.path(), &copies);
        check_paths(&directory.path().join(SOCKETS), copies.plugins)?;
        let mut left_out = copies.left_out;
        let on_event = |event: &Event| {
            report.event(event);
            if let Event::NotServed { plugin, file, reason, .. } = event {
                let file = file.as_ref().map(ToString::to_string);
                let name = file.or_else(|| plugin.clone()).unwrap_or_default();
                left_out.push(format!("{name}: {reason}"));
            }
        };
        let mut private = Self::launch(command, directory, on_event).await?;
        private.left_out = left_out;
        Ok(private)
    }

    /// Starts a supervisor with its directories in `directory`, and waits until
    /// it is ready. `on_event` gets all events up to and including `Ready`.
    pub(super) async fn launch(
        mut command: Command,
        directory: TempDir,
        on_event: impl FnMut(&Event),
    ) -> Result<Self, NotPrivate> {
        let lock = File::open(directory.path())?;
        lock.lock()?;
        command.arg("--events").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        let stdout = stdout.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let (events, left_out) = (Events::new(stdout), Vec::new());
        let mut private = Self { child, events, directory, _lock: lock, left_out };
        let ready = timeout(START_TIMEOUT, private.ready(on_event)).await;
        ready.map_err(|_elapsed| NotPrivate::Slow)??;
        Ok(private)
    }

    /// The directory of its sockets.
    pub(super) fn sockets(&self) -> PathBuf {
        self.directory.path().join(SOCKETS)
    }

    /// Definitions that it does not serve, each with its file and the reason.
    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Reports events until the supervisor ends.
    pub(super) async fn follow(&mut self, report: &mut Report) {
        while let Ok(Some(event)) = self.events.next().await {
            report.event(&event);
        }
    }

    /// Ends the supervisor and waits, so that no process or file is left.
    pub(super) async fn stop(mut self, report: &mut Report) {
        self.leave();
        let end = async {
            self.follow(report).await;
            self.child.wait().await
        };
        // After the time limit, dropping the child kills it, and its spawner then
        // kills all other processes.
        let _ = timeout(STOP_TIMEOUT, end).await;
    }

    /// Closes its standard input, which ends it.
    fn leave(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Sends SIGTERM, unless the supervisor has ended.
    fn terminate(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // An error means that it has just ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    async fn ready(&mut self, mut on_event: impl FnMut(&Event)) -> Result<(), NotPrivate> {
        while let Some(event) = self.events.next().await? {
            on_event(&event);
            match event {
                Event::Ready { .. } => return Ok(()),
                Event::Failed { reason, shortfalls } => {
                    return Err(NotPrivate::Failed { reason: reason.to_string(), shortfalls });
                }
                Event::NotServed { .. }
                | Event::PluginOutput { .. }
                | Event::Request { .. }
                | Event::Refused(_)
                | Event::Used(_)
                | Event::Warning { .. } => {}
            }
        }
        Err(NotPrivate::Silent(self.child.wait().await?))
    }
}

/// Waits for the end of the supervisor and its spawner, even after an error or a
/// signal, because only then can their directories be removed.
impl Drop for Private {
    fn drop(&mut self) {
        let until = Instant::now() + STOP_TIMEOUT;
        self.leave();
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            // A signal after that cancels running requests.
            self.terminate();
            thread::sleep(SIGNAL_PAUSE);
        }
        // A supervisor that is killed during its start leaves its spawner running.
        let is_left = || {
            fs::remove_dir_all(self.directory.path())
                .is_err_and(|e| e.kind() != io::ErrorKind::NotFound)
        };
        while is_left() && Instant::now() < until {
            thread::sleep(SIGNAL_PAUSE);
        }
    }
}

/// The command of a private supervisor with these directories, and with all settings that it
/// must not inherit from the environment of a container.
pub(super) fn command(plugins: &Path, sockets: &Path, work: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        // A sidecar has none, and shells look at that directory.
        .env_remove("OLDPWD")
        .arg("serve")
        .arg("--plugins-dir")
        .arg(plugins)
        .arg("--socket-dir")
        .arg(sockets)
        .arg("--work-dir")
        .arg(work)
        .args(["--http", "off", "--admin-http", "off"])
        .args(["--keep-failed", "0", "--shutdown-delay", "0"]);
    command
}

/// Returns an error if no plugin can have a socket in this directory: the supervisor would
/// not become ready.
fn check_paths(sockets: &Path, names: Vec<PluginName>) -> Result<(), NotPrivate> {
    let length = |name: &PluginName| sockets.join(name.socket_file()).as_os_str().len();
    let shortest = names.into_iter().min_by_key(length).map(|plugin| (length(&plugin), plugin));
    match shortest {
        Some((length, plugin)) if length > MAX_SOCKET_PATH => {
            Err(NotPrivate::LongPath { plugin, length })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plugin::DEFAULT_SOCKET_DIR, settings};

    /// Flags that each command that starts a private supervisor decides.
    const DECIDED: [&str; 3] = ["isolation", "max-requests", "request-cgroups"];

    /// Flags that a private supervisor takes from its environment: `render` then confines and
    /// limits commands as the container's supervisor does.
    const INHERITED: [&str; 31] = [
        "status-details",
        "metrics-per-application",
        "accept-no-isolation",
        "accept-no-landlock",
        "uid-range",
        "run-as-uid",
        "network",
        "read",
        "max-archive",
        "max-repository",
        "max-repository-files",
        "max-memory",
        "max-processes",
        "max-cpu",
        "max-file-size",
        "max-disk",
        "max-files",
        "max-output",
        "max-queue",
        "stream-timeout",
        "exec-timeout",
        "exec-grace",
        "empty-grace",
        "drain-timeout",
        "log-format",
        "log-level",
        "otlp-address",
        "otlp-insecure",
        "otlp-headers",
        "otlp-attrs",
        "otlp-sample-ratio",
    ];

    #[test]
    fn each_flag_is_set_for_a_private_supervisor_or_inherited_on_purpose() {
        let command = command(Path::new("p"), Path::new("s"), Path::new("w"));
        let arguments: Vec<_> =
            command.as_std().get_args().filter_map(|arg| arg.to_str()).collect();
        for flag in settings::ALL.into_iter().filter_map(|row| row.flag) {
            let is_set = arguments.contains(&format!("--{}", flag.name).as_str());
            let lists = [DECIDED.contains(&flag.name), INHERITED.contains(&flag.name), is_set];
            let count = lists.into_iter().filter(|is_there| *is_there).count();
            assert_eq!(
                count, 1,
                "--{}: set it in `command`, or list it in DECIDED or INHERITED",
                flag.name
            );
        }
    }

    #[test]
    fn a_name_that_fits_into_argo_cds_directory_fits_below_tmp() {
        let sockets = Path::new("/tmp").join(format!("{PRIVATE}123456")).join(SOCKETS);
        let name = |length| PluginName::new(&"n".repeat(length), "").unwrap();
        let longest = MAX_SOCKET_PATH - DEFAULT_SOCKET_DIR.len() - "/.sock".len();
        assert!(check_paths(&sockets, vec![name(longest)]).is_ok());
        let error = check_paths(&sockets, vec![name(200), name(100)]).unwrap_err().to_string();
        assert!(error.contains("would have 131 bytes"), "{error}");
        assert!(check_paths(&sockets, vec![name(200), name(2)]).is_ok());
        assert!(check_paths(&sockets, vec![]).is_ok());
    }
}
