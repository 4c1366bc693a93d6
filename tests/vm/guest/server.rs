//! A running supervisor with plugins, and requests to it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    PRODUCT, PROGRAM,
    container::{self, Container},
};

/// Time limit for anything to happen. The machine is emulated and slow.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A plugin: its name, the shell script of generate, and more lines of `spec`.
pub(crate) type Plugin<'p> = (&'p str, &'p str, &'p str);

/// The plugin that must keep answering.
pub(crate) const VICTIM: Plugin<'static> = ("victim", "echo 'kind: Victim'", "");

/// A supervisor, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
}

/// Settings of a supervisor.
#[derive(Debug)]
pub(crate) struct Settings<'s> {
    pub(crate) container: Option<&'s Container>,
    pub(crate) plugins: &'s [Plugin<'s>],
    pub(crate) arguments: &'s [&'s str],
    /// Directory of workspaces, if it is not on the same file system.
    pub(crate) work: Option<&'s Path>,
}

impl Settings<'_> {
    /// Starts the supervisor and waits until it serves all plugins.
    pub(crate) fn start(&self) -> Server {
        let mut server = self.launch();
        let until = Instant::now() + PATIENCE;
        while !server.log().contains("\"msg\":\"ready\"") {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "not ready: {}", server.log());
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Starts the supervisor, waits for its end, and returns the exit code and the
    /// log.
    pub(crate) fn refused(&self) -> (Option<i32>, String) {
        let mut server = self.launch();
        let code = server.child.wait().unwrap().code();
        (code, server.log())
    }

    fn launch(&self) -> Server {
        let directory = Path::new("/tmp/server").to_owned();
        // Sockets of an ended server would be mistaken for those of the new one.
        let _ = fs::remove_dir_all(&directory);
        for name in ["plugins", "app"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        fs::write(directory.join("app/file"), "x").unwrap();
        open(&directory);
        for (name, script, more) in self.plugins {
            let script = serde_json::to_string(script).unwrap();
            let text = format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
                 {name}}}\nspec:\n  generate: {{command: [sh, -c, {script}]}}\n{more}\n"
            );
            fs::write(directory.join("plugins").join(format!("{name}.yaml")), text).unwrap();
        }
        let mut command = match self.container {
            Some(container) => container.command(PRODUCT),
            None => Command::new(PRODUCT),
        };
        let work = self.work.map_or_else(|| directory.join("work"), Path::to_owned);
        command.arg("serve").current_dir(&directory);
        command.args(["--plugins-dir", "plugins", "--socket-dir", "sockets", "--http", "off"]);
        command.args(["--log-format", "json"]).arg("--work-dir").arg(work).args(self.arguments);
        let log = fs::File::create(directory.join("log")).unwrap();
        let child = command.env("PATH", "/bin:/usr/bin").stdin(Stdio::null()).stderr(log).spawn();
        Server { child: child.unwrap(), directory }
    }
}

impl Server {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Starts a request. `timeout` is in seconds.
    pub(crate) fn start(&self, plugin: &str, timeout: u32) -> Request {
        let mut command = Command::new(PRODUCT);
        command.arg("render").arg(self.directory.join("app"));
        command.arg("--socket").arg(self.directory.join(format!("sockets/{plugin}.sock")));
        command.args(["-o", "json", "--timeout", &format!("{timeout}s")]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Request(child.unwrap())
    }

    /// Makes a request and waits for the manifests or the error.
    pub(crate) fn ask(&self, plugin: &str, timeout: u32) -> Result<String, String> {
        self.start(plugin, timeout).wait()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Stops the supervisor in order and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request that was started.
#[derive(Debug)]
pub(crate) struct Request(Child);

impl Request {
    pub(crate) fn wait(self) -> Result<String, String> {
        let output = self.0.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

/// A script that runs a payload of this program.
pub(crate) fn payload(words: &str) -> String {
    format!("exec {PROGRAM} payload {words}")
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < until, "waited too long: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Opens a directory to the UIDs of requests.
fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    chown(path, Some(container::USER), Some(container::USER)).unwrap();
}
