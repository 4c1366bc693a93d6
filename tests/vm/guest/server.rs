//! A running supervisor with plugins, and requests to it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
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
    victim::Ask,
};

/// Time limit for anything to happen. The machine is emulated and slow.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// Time between two looks.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Directory of the supervisor's definitions, sockets and workspaces, and its log.
pub(super) const DIRECTORY: &str = "/tmp/server";
pub(super) const LOG: &str = "log";

/// Starts a program again each time it ends.
const LOOP: &str = "while :; do \"$0\" \"$@\"; done";

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
        self.launch(&[PRODUCT]).ready()
    }

    /// The same with a shell that starts it again each time it ends.
    pub(crate) fn start_again_and_again(&self) -> Server {
        self.launch(&["/bin/sh", "-c", LOOP, PRODUCT]).ready()
    }

    /// Starts the supervisor, waits for its end, and returns the exit code and the
    /// log.
    pub(crate) fn refused(&self) -> (Option<i32>, String) {
        let mut server = self.launch(&[PRODUCT]);
        let code = server.end();
        (code, server.log())
    }

    fn launch(&self, program: &[&str]) -> Server {
        let directory = Path::new(DIRECTORY).to_owned();
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
            Some(container) => container.command(program[0]),
            None => Command::new(program[0]),
        };
        command.args(&program[1..]);
        let work = self.work.map_or_else(|| directory.join("work"), Path::to_owned);
        command.arg("serve").current_dir(&directory);
        command.args(["--plugins-dir", "plugins", "--socket-dir", "sockets", "--http", "off"]);
        command.args(["--log-format", "json"]).arg("--work-dir").arg(work).args(self.arguments);
        let log = fs::File::create(directory.join(LOG)).unwrap();
        let child = command.env("PATH", "/bin:/usr/bin").stdin(Stdio::null()).stderr(log).spawn();
        Server { child: child.unwrap(), directory }
    }
}

impl Server {
    /// Waits until it serves all plugins.
    fn ready(mut self) -> Self {
        let until = Instant::now() + PATIENCE;
        while self.starts() == 0 {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "not ready: {}", self.log());
            thread::sleep(LOOK_AGAIN);
        }
        self
    }

    /// Number of times that it was ready.
    pub(crate) fn starts(&self) -> usize {
        self.log().matches("\"msg\":\"ready\"").count()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join(LOG)).unwrap_or_default()
    }

    /// Starts a request. `timeout` is in seconds.
    pub(crate) fn start(&self, plugin: &str, timeout: u32) -> Request {
        let socket = self.directory.join(format!("sockets/{plugin}.sock"));
        request(&self.directory.join("app"), &socket, timeout)
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
        self.end();
    }

    /// Waits for its end and returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let mut status = None;
        until("the supervisor ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Ask for Server {
    const PAUSE: Duration = Duration::from_millis(100);

    fn ask(&self, plugin: &str, timeout: u32) -> Result<String, String> {
        self.ask(plugin, timeout)
    }

    fn log(&self) -> String {
        self.log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a request for an application. `timeout` is in seconds.
pub(super) fn request(application: &Path, socket: &Path, timeout: u32) -> Request {
    let mut command = Command::new(PRODUCT);
    command.arg("render").arg(application).arg("--socket").arg(socket);
    command.args(["-o", "json", "--timeout", &format!("{timeout}s")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Request::new(child.unwrap(), Duration::from_secs(timeout.into()) + PATIENCE)
}

/// A request that was started.
#[derive(Debug)]
pub(crate) struct Request {
    client: Pid,
    output: mpsc::Receiver<Output>,
    limit: Duration,
}

impl Request {
    fn new(client: Child, limit: Duration) -> Self {
        let pid = Pid::from_raw(client.id().cast_signed());
        let (sender, output) = mpsc::channel();
        // Nobody may wait for it.
        thread::spawn(move || sender.send(client.wait_with_output().unwrap()));
        Self { client: pid, output, limit }
    }

    /// Ends its client, which ends the request.
    pub(crate) fn vanish(self) {
        kill(self.client, Signal::SIGKILL).unwrap();
        self.wait().unwrap_err();
    }

    /// True if it was answered.
    pub(crate) fn has_ended(&self) -> bool {
        kill(self.client, None).is_err()
    }

    pub(crate) fn wait(self) -> Result<String, String> {
        let output = self.output.recv_timeout(self.limit);
        let output = output.unwrap_or_else(|_| panic!("no answer in {:?}", self.limit));
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
        thread::sleep(LOOK_AGAIN);
    }
}

/// Opens a directory to the UIDs of requests.
fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    chown(path, Some(container::USER), Some(container::USER)).unwrap();
}
