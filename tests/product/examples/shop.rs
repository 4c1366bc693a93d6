//! Tools, keys, definitions and applications in one place.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    documents::documents,
    sandbox_settings::bench::{Bench, Rendered, Server},
    skip::skip,
    tool::{self, MACHINE},
};

/// Tools that no package registry has in a form that a test can build in time. They
/// are tested where somebody has put them into `target/tools/bin`.
const ELSEWHERE: [&str; 2] = ["argocd-vault-plugin", "vault"];

/// A definition and its application.
#[derive(Clone, Copy)]
pub(super) struct Example {
    pub name: &'static str,
    /// Programs that it needs.
    pub programs: &'static [&'static str],
    /// Arguments of `render`, and the variables that Argo CD makes of them.
    pub arguments: &'static [&'static str],
    pub variables: &'static [(&'static str, &'static str)],
    /// A text in the manifests.
    pub contains: &'static str,
}

/// All that the examples need, removed when this value is dropped.
pub(super) struct Shop {
    bench: Bench,
    /// Those whose programs are here.
    pub examples: Vec<Example>,
}

impl Example {
    pub(super) const fn of(name: &'static str) -> Self {
        Self { name, programs: &[], arguments: &[], variables: &[], contains: "" }
    }
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// True if a program is here; otherwise prints what lacks it.
fn has(example: &Example, program: &str) -> bool {
    let is_here = tool::find(program).is_some() || tool::module(program).is_dir();
    if !is_here {
        let reason = format!("{} needs {program}: run tests/tools/build", example.name);
        if ELSEWHERE.contains(&program) {
            println!("skipped: {} needs {program}, which has no package", example.name);
        } else {
            skip(&reason);
        }
    }
    is_here
}

impl Shop {
    /// Sets up the examples whose programs are here.
    pub(super) fn new(examples: &[Example]) -> Self {
        let has_all = |example: &&Example| example.programs.iter().all(|it| has(example, it));
        let examples: Vec<_> = examples.iter().filter(has_all).copied().collect();
        let bench = Bench::new("", "true");
        let (bin, modules) = (bench.path("bin"), bench.path("bin/node_modules"));
        let path = format!("{}:{MACHINE}", bin.display());
        let bench = bench.with("PATH", &path).with("NODE_PATH", modules.to_str().unwrap());
        let shop = Self { bench, examples };
        shop.provide_tools();
        fs::remove_file(shop.bench.path("plugins/tried.yaml")).unwrap();
        for example in &shop.examples {
            let file = root().join(format!("plugins.d/{}.yaml", example.name));
            shop.define(example.name, &fs::read_to_string(file).unwrap());
            let application = root().join("plugins.d/examples").join(example.name);
            copy(&application, &shop.bench.path("apps").join(example.name));
        }
        if shop.examples.iter().any(|example| example.programs.contains(&"sops")) {
            shop.encrypt();
        }
        shop
    }

    /// Links the tools into a directory that every UID can enter.
    fn provide_tools(&self) {
        let bin = self.bench.path("bin");
        fs::create_dir(&bin).unwrap();
        for entry in fs::read_dir(tool::built().join("bin")).into_iter().flatten() {
            let path = entry.unwrap().path();
            let link = bin.join(path.file_name().unwrap());
            fs::hard_link(&path, &link).or_else(|_| fs::copy(&path, &link).map(drop)).unwrap();
        }
        let modules = tool::module("");
        if modules.is_dir() {
            copy(&modules, &bin.join("node_modules"));
        }
    }

    /// Adds a definition; the directory of keys has another path here.
    pub(super) fn define(&self, name: &str, definition: &str) {
        let keys = self.bench.path("keys");
        let definition = definition.replace("/keys", keys.to_str().unwrap());
        fs::write(self.bench.path("plugins").join(format!("{name}.yaml")), definition).unwrap();
    }

    /// Makes a key, and encrypts the Secret of each application.
    fn encrypt(&self) {
        let keys = self.bench.path("keys");
        fs::create_dir(&keys).unwrap();
        let key = keys.join("age.txt");
        self.run("age-keygen", &["-o", key.to_str().unwrap()]);
        // As in a volume of Kubernetes.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        for example in &self.examples {
            let application = self.application(example);
            let plain = application.join("secret.plain");
            if plain.exists() {
                let encrypted = self.encrypted(&plain, "yaml");
                fs::write(application.join("secret.enc.yaml"), encrypted).unwrap();
            }
        }
    }

    /// A file of YAML, encrypted for the key, in this format.
    pub(super) fn encrypted(&self, plain: &Path, format: &str) -> String {
        let key = self.bench.path("keys/age.txt");
        let public = self.run("age-keygen", &["-y", key.to_str().unwrap()]);
        let types = ["--input-type", "yaml", "--output-type", format];
        let regex = ["--encrypted-regex", "^(data|stringData)$", plain.to_str().unwrap()];
        let all = ["--encrypt", "--age", public.trim()].into_iter().chain(types).chain(regex);
        self.run("sops", &all.collect::<Vec<_>>())
    }

    /// A command with the variables of the sidecar.
    pub(super) fn command(&self, program: &str) -> Command {
        let path = format!("{}:{MACHINE}", self.bench.path("bin").display());
        let found = path.split(':').map(|place| Path::new(place).join(program));
        let mut command = Command::new(found.into_iter().find(|path| path.exists()).unwrap());
        command.env_clear().env("PATH", &path).stdin(Stdio::null());
        command.env("NODE_PATH", self.bench.path("bin/node_modules"));
        command.env("HOME", self.bench.path("home"));
        command
    }

    /// Runs a tool, which must succeed, and returns what it prints.
    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Renders an example with a supervisor of its own, and with this as the line of
    /// the definition that names the directory of keys.
    pub(super) fn render_alone(
        &self,
        example: &Example,
        line: &str,
        arguments: &[&str],
    ) -> Rendered {
        let definition = root().join(format!("plugins.d/{}.yaml", example.name));
        let definition = fs::read_to_string(definition).unwrap();
        let keys = self.bench.path("keys");
        let kept = definition.lines().filter(|line| line.trim() != "read: [/keys]");
        let kept: Vec<_> = kept.map(|it| it.replace("/keys", keys.to_str().unwrap())).collect();
        let text = kept.join("\n").replace("  sandbox:", &format!("  sandbox:\n{line}"));
        fs::write(self.bench.path("plugins").join(format!("{}.yaml", example.name)), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        let path = format!("{}:{MACHINE}", self.bench.path("bin").display());
        command.env_clear().env("PATH", path).arg("render");
        command.arg(self.application(example)).args(["-o", "json", "--plugin"]);
        command.arg(example.name).arg("--plugins-dir").arg(self.bench.path("plugins"));
        command.args(arguments).output().unwrap().into()
    }

    /// Serves all definitions until the result is dropped.
    pub(super) fn serve(&self, tier: &str) -> Server {
        // The server before may have run as another user, and its sockets would look
        // like those of this one.
        for name in ["sockets", "work"] {
            while fs::exists(self.bench.path(name)).unwrap() {
                let _ = fs::remove_dir_all(self.bench.path(name));
            }
        }
        self.bench.serve(tier, &[])
    }

    /// Renders the application of an example with the running server.
    pub(super) fn ask(&self, example: &Example, arguments: &[&str]) -> Rendered {
        let application = format!("apps/{}", example.name);
        self.bench.ask_for(&application, &self.plugin(example), arguments)
    }

    /// The directory of an example's application.
    pub(super) fn application(&self, example: &Example) -> PathBuf {
        self.bench.path("apps").join(example.name)
    }

    /// The definition of an example.
    fn definition(&self, example: &Example) -> Value {
        let file = self.bench.path("plugins").join(format!("{}.yaml", example.name));
        let definition = cmp_yaml::to_json(&fs::read(file).unwrap()).unwrap();
        serde_json::from_slice(&definition).unwrap()
    }

    /// The name of its plugin, with the version.
    fn plugin(&self, example: &Example) -> String {
        let version = self.definition(example)["spec"]["version"].as_str().map(str::to_owned);
        version.map_or(example.name.to_owned(), |version| format!("{}-{version}", example.name))
    }

    /// The parameters that the running server announces.
    pub(super) fn announced(&self, example: &Example) -> Vec<Value> {
        let mut command = self.command(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.arg("params").arg(self.application(example)).arg("--socket");
        command.arg(self.bench.path("sockets").join(format!("{}.sock", self.plugin(example))));
        let output = command.args(["--output", "json"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).expect(&stderr)
    }

    /// The manifests that the definition's commands print without a sandbox.
    pub(super) fn run_plainly(&self, example: &Example) -> Vec<Value> {
        let definition = self.definition(example);
        let place = TempDir::with_prefix("cmp-plain-").unwrap();
        let application = place.path().join(example.name);
        copy(&self.application(example), &application);
        let mut stdout = Vec::new();
        for phase in ["init", "generate"] {
            let words = ["command", "args"].into_iter();
            let words: Vec<_> = words
                .flat_map(|key| definition["spec"][phase][key].as_array().into_iter().flatten())
                .map(|word| word.as_str().unwrap())
                .collect();
            let Some((program, arguments)) = words.split_first() else { continue };
            let mut command = match program.strip_prefix("./") {
                Some(script) => self.command(application.join(script).to_str().unwrap()),
                None => self.command(program),
            };
            command.args(arguments).current_dir(&application);
            command.env("HOME", place.path()).env("TMPDIR", place.path());
            command.env("ARGOCD_APP_NAME", example.name).env("ARGOCD_APP_NAMESPACE", "default");
            let output = command.envs(example.variables.iter().copied()).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} {phase}: {stderr}", example.name);
            stdout = output.stdout;
        }
        documents(&stdout)
    }
}

/// Copies a directory with everything in it.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}
