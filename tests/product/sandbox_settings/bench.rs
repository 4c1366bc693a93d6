//! Runs the binary with one plugin and one application.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use cmp_supervisor::grpc::Parcel;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{skip::skip, spawned::all_children, waiting::retry};

/// All tiers of isolation, the strongest first.
pub(crate) const TIERS: [&str; 4] = ["namespaces", "uid", "landlock", "none"];

/// A script that prints one manifest.
pub(crate) const FINE: &str = "echo 'kind: A'";

/// Exit code of `render` if its private supervisor did not start.
const NO_SUPERVISOR: i32 = 7;

/// Directories with plugins, an application, and space for a server.
pub(crate) struct Bench {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

/// The result of `render`.
pub(crate) struct Rendered {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

/// Returns true if a command succeeds.
pub(crate) fn is_ok(command: &mut Command) -> bool {
    let output = command.output();
    output.is_ok_and(|output| {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    })
}

/// Runs the binary as root with the capabilities of the shipped manifests only.
pub(crate) fn as_in_a_container(verb: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all,+setuid,+setgid,+kill", "--inh-caps", "-all"]);
    command.arg(env!("CARGO_BIN_EXE_cmp-supervisor")).arg(verb);
    command
}

impl Bench {
    /// `spec` is the plugin's specification without `generate`; `script` is the
    /// shell script that generate runs.
    pub(crate) fn new(spec: &str, script: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("cmp-settings-").tempdir().unwrap();
        open_to_all(directory.path());
        fs::create_dir(directory.path().join("app")).unwrap();
        fs::write(directory.path().join("app/x"), "x").unwrap();
        fs::create_dir(directory.path().join("plugins")).unwrap();
        let bench = Self { directory, variables: Vec::new() };
        bench.add("tried", spec, script);
        bench
    }

    /// Adds a plugin.
    pub(crate) fn add(&self, name: &str, spec: &str, script: &str) {
        let script = serde_json::to_string(script).unwrap();
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
             {name}}}\nspec:\n  generate: {{command: [sh, -c, {script}]}}\n{spec}\n"
        );
        fs::write(self.path("plugins").join(format!("{name}.yaml")), text).unwrap();
    }

    /// Sets a variable of the sidecar.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new directory that everybody may change.
    pub(crate) fn open_directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        path
    }

    /// Renders with a private supervisor.
    pub(crate) fn render(&self, tier: &str, arguments: &[&str]) -> Rendered {
        self.render_as("json", tier, arguments)
    }

    /// The same with another format of the result.
    pub(crate) fn render_as(&self, format: &str, tier: &str, arguments: &[&str]) -> Rendered {
        let mut command = self.command("render");
        command.arg(self.path("app")).arg("--plugins-dir").arg(self.path("plugins"));
        command.args(["--isolation", tier, "-o", format]).args(arguments);
        command.output().unwrap().into()
    }

    /// Starts a server, which runs until it is dropped.
    pub(crate) fn serve(&self, tier: &str, arguments: &[&str]) -> Server {
        self.start(self.command("serve"), tier, arguments)
    }

    /// Starts a server as another user than root.
    pub(crate) fn serve_as(&self, user: u32, tier: &str, arguments: &[&str]) -> Server {
        let mut command = self.command("serve");
        command.uid(user).gid(user);
        self.start(command, tier, arguments)
    }

    /// Starts a server with a command that executes its arguments.
    pub(crate) fn start(&self, mut command: Command, tier: &str, arguments: &[&str]) -> Server {
        let sockets = self.path("sockets");
        // Relative paths must be the same for all processes of the server.
        command.current_dir(self.directory.path());
        command.args(["--plugins-dir", "plugins", "--socket-dir", "sockets", "--work-dir", "work"]);
        command.args(["--http", "off"]);
        command.args(["--isolation", tier]).args(arguments);
        if tier == "none" {
            command.arg("--accept-no-isolation");
        }
        let log = fs::File::create(self.path("log")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Server { child, log: self.path("log") };
        let wanted = count(&self.path("plugins"), "yaml");
        let is_complete = || count(&sockets, "sock") >= wanted;
        retry(|| is_complete().then_some(()).ok_or_else(|| format!("sockets: {}", server.log())));
        server
    }

    /// Renders with the running server.
    pub(crate) fn ask(&self, plugin: &str, arguments: &[&str]) -> Rendered {
        self.ask_for("app", plugin, arguments)
    }

    /// Renders another application with the running server.
    pub(crate) fn ask_for(&self, application: &str, plugin: &str, arguments: &[&str]) -> Rendered {
        let mut command = self.command("render");
        let socket = self.path("sockets").join(format!("{plugin}.sock"));
        command
            .arg(self.path(application))
            .arg("--socket")
            .arg(socket)
            .args(["-o", "json"])
            .args(arguments);
        command.output().unwrap().into()
    }

    /// The application as a client in this process sends it.
    pub(crate) fn parcel(&self) -> Parcel {
        let archive = self.path("archive.tgz");
        if !archive.exists() {
            let mut tar = Command::new("tar");
            tar.arg("-czf").arg(&archive).arg("-C").arg(self.path("app")).arg(".");
            assert!(tar.status().unwrap().success());
        }
        let bytes = fs::read(&archive).unwrap();
        let digest = Sha256::digest(&bytes);
        Parcel {
            application: "app".to_owned(),
            directory: b".".to_vec(),
            environment: Vec::new(),
            archive,
            size: bytes.len() as u64,
            checksum: digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}")),
            trace: None,
            timeout: Duration::from_mins(1),
            timeout_setting: "--timeout",
        }
    }

    /// A command of the product, with the variables of the sidecar only.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.arg(verb).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Files of a directory with this extension.
fn count(directory: &Path, wanted: &str) -> usize {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    listed.filter(|entry| entry.path().extension().is_some_and(|found| found == wanted)).count()
}

/// A server, which is killed when this value is dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log contains a text, and returns the log. A thread of the supervisor
    /// writes the log, so a line can come later than the answer to its request.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> String {
        retry(|| match self.log() {
            log if log.contains(text) => Ok(log),
            log => Err(format!("{text:?} in the log: {log}")),
        })
    }

    /// Stops the server and returns its whole log.
    pub(crate) fn last_log(&mut self) -> String {
        self.stop();
        self.log()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The spawner, which is the supervisor's only child.
    pub(crate) fn spawner(&self) -> i32 {
        let children = all_children(self.child.id().cast_signed());
        let [spawner] = children[..] else { panic!("children of the supervisor: {children:?}") };
        spawner
    }

    /// Kills the supervisor alone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(pid).status().unwrap();
    }

    /// Waits for the end.
    pub(crate) fn ends(&mut self) {
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(&mut self) {
        self.terminate();
        self.ends();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The spawner kills all other processes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rendered {
    /// The text under a key of the only manifest.
    #[track_caller]
    pub(crate) fn value(&self, key: &str) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        let manifests: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        let value = manifests[0][key].as_str();
        value.unwrap_or_else(|| panic!("no {key} in {}", self.stdout)).to_owned()
    }

    /// All manifests; panics if there is an error.
    #[track_caller]
    pub(crate) fn manifests(&self) -> Vec<serde_json::Value> {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The error text; panics if there is none.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        assert_ne!(self.code, Some(0), "{}", self.stdout);
        let at = self.stderr.find("error: ").unwrap_or_else(|| panic!("{}", self.stderr));
        &self.stderr[at..]
    }
}

impl From<Output> for Rendered {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }
}

/// The tiers that are available here; prints what the others lack.
pub(crate) fn tiers() -> Vec<&'static str> {
    let bench = Bench::new("", "echo 'kind: A'");
    let is_had = |tier: &&str| {
        let rendered = bench.render(tier, &[]);
        match rendered.code {
            Some(0) => true,
            Some(NO_SUPERVISOR) => {
                skip(&format!("the tier {tier}: {}", rendered.stderr.trim()));
                false
            }
            code => panic!("the tier {tier}: {code:?}: {}", rendered.stderr),
        }
    };
    let had: Vec<_> = TIERS.into_iter().filter(is_had).collect();
    assert!(had.contains(&"none"), "not even the tier none is available");
    had
}

/// The same without `none`.
pub(crate) fn isolating_tiers() -> impl Iterator<Item = &'static str> {
    tiers().into_iter().filter(|tier| *tier != "none")
}

/// Opens a directory to the UIDs of requests.
fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
