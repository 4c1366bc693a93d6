//! The built binary, tried with one plugin and one application.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Every way to keep requests apart, the strongest first.
pub(crate) const TIERS: [&str; 4] = ["namespaces", "uid", "landlock", "none"];

/// How long a server may take to show its sockets.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the program exits with when no supervisor of its own could be started.
const NO_SUPERVISOR: i32 = 7;

/// A directory with plugins, an application, and room for a server.
pub(crate) struct Bench {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

/// What came of a request.
pub(crate) struct Rendered {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl Bench {
    /// `spec` is the plugin's, without `generate`, which is a shell script.
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

    /// Renders with a supervisor of its own.
    pub(crate) fn render(&self, tier: &str, arguments: &[&str]) -> Rendered {
        let mut command = self.command("render");
        command.arg(self.path("app")).arg("--plugins-dir").arg(self.path("plugins"));
        command.args(["--isolation", tier, "-o", "json"]).args(arguments);
        command.output().unwrap().into()
    }

    /// Starts a server that goes on until it is dropped.
    pub(crate) fn serve(&self, tier: &str, arguments: &[&str]) -> Server {
        let sockets = self.path("sockets");
        let mut command = self.command("serve");
        // Relative paths mean the same to all of the server's processes.
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
        let wanted = fs::read_dir(self.path("plugins")).unwrap().count();
        let until = Instant::now() + PATIENCE;
        let shown = || {
            let listed = fs::read_dir(&sockets).into_iter().flatten().flatten();
            listed.filter(|entry| entry.path().extension().is_some_and(|e| e == "sock")).count()
        };
        while shown() < wanted {
            assert!(Instant::now() < until, "no sockets: {}", server.log());
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Renders with the server that runs.
    pub(crate) fn ask(&self, plugin: &str, arguments: &[&str]) -> Rendered {
        let mut command = self.command("render");
        let socket = self.path("sockets").join(format!("{plugin}.sock"));
        command
            .arg(self.path("app"))
            .arg("--socket")
            .arg(socket)
            .args(["-o", "json"])
            .args(arguments);
        command.output().unwrap().into()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.arg(verb).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(pid).status().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its spawner ends everything when it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rendered {
    /// The value of a key of the only manifest, which is a text.
    #[track_caller]
    pub(crate) fn value(&self, key: &str) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        let manifests: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        let value = manifests[0][key].as_str();
        value.unwrap_or_else(|| panic!("no {key} in {}", self.stdout)).to_owned()
    }

    /// The error text, which must be there.
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

/// The tiers that can be had here; the others are named with what they lack.
pub(crate) fn tiers() -> Vec<&'static str> {
    let bench = Bench::new("", "echo 'kind: A'");
    let is_had = |tier: &&str| {
        let rendered = bench.render(tier, &[]);
        if rendered.code == Some(NO_SUPERVISOR) {
            println!("skipped for {tier}: {}", rendered.stderr.trim());
        }
        rendered.code == Some(0)
    };
    let had: Vec<_> = TIERS.into_iter().filter(is_had).collect();
    assert!(had.contains(&"none"), "not even a sandbox of nothing can be had");
    had
}

/// The requests' users have to come through.
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
