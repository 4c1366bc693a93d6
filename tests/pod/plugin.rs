//! Plugins, and the ConfigMap volume that holds their definitions.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Forks as many processes as it can, and again as soon as one has ended.
const BOMB: &str = "
import os, time
while True:
  try:
    if os.fork() == 0: time.sleep(300); os._exit(0)
  except OSError: time.sleep(0.01)
";

/// A plugin whose commands are shell scripts.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    generate: String,
    discover: Option<String>,
    more: String,
}

impl Plugin {
    /// A plugin that runs `script` for each application.
    pub(crate) fn new(name: &str, script: &str) -> Self {
        let (name, generate) = (name.to_owned(), script.to_owned());
        Self { name, generate, discover: None, more: String::new() }
    }

    /// A plugin `bomb` that takes all processes.
    pub(crate) fn bomb() -> Self {
        Self::new("bomb", &format!("python3 -c '{BOMB}'"))
    }

    /// Claims applications that have a file of this name.
    pub(crate) fn file_name(mut self, name: &str) -> Self {
        self.discover = Some(format!("{{fileName: {}}}", quote(name)));
        self
    }

    /// Claims applications for which `script` prints anything.
    pub(crate) fn find(mut self, script: &str) -> Self {
        self.discover = Some(format!("{{find: {{command: [sh, -c, {}]}}}}", quote(script)));
        self
    }

    /// Adds lines to `spec`, for example `limits: {memory: 64Mi}`.
    pub(crate) fn spec(mut self, line: &str) -> Self {
        self.more.extend(["  ", line, "\n"]);
        self
    }

    fn definition(&self) -> String {
        let Self { name, generate, discover, more } = self;
        let discover = discover.as_ref().map(|rule| format!("  discover: {rule}\n"));
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
             {name}}}\nspec:\n  generate: {{command: [sh, -c, {}]}}\n{}{more}",
            quote(generate),
            discover.unwrap_or_default(),
        )
    }
}

/// A string of JSON, which is also one of YAML.
fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A directory that the kubelet fills from a ConfigMap: the files are links
/// through `..data`, and a change replaces that link.
#[derive(Debug)]
pub(crate) struct ConfigMap {
    directory: PathBuf,
    generation: AtomicU32,
}

impl ConfigMap {
    pub(crate) fn new(directory: &Path, plugins: &[Plugin]) -> Self {
        fs::create_dir(directory).unwrap();
        let this = Self { directory: directory.to_owned(), generation: AtomicU32::new(0) };
        this.update(plugins);
        this
    }

    /// Replaces all definitions at once.
    pub(crate) fn update(&self, plugins: &[Plugin]) {
        let at = |name: &str| self.directory.join(name);
        let number = self.generation.fetch_add(1, Ordering::Relaxed);
        let folder = format!("..generation_{number}");
        fs::create_dir(at(&folder)).unwrap();
        for plugin in plugins {
            let file = format!("{}.yaml", plugin.name);
            fs::write(at(&folder).join(&file), plugin.definition()).unwrap();
        }
        symlink(&folder, at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        for plugin in plugins {
            let file = format!("{}.yaml", plugin.name);
            if !at(&file).is_symlink() {
                symlink(format!("..data/{file}"), at(&file)).unwrap();
            }
        }
        self.remove_old(&folder);
    }

    /// Removes links of plugins that are gone, and the last generation.
    fn remove_old(&self, folder: &str) {
        for entry in fs::read_dir(&self.directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_link = !name.starts_with("..");
            if is_link && !self.directory.join("..data").join(&name).exists() {
                fs::remove_file(entry.path()).unwrap();
            } else if name.starts_with("..generation") && name != folder {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    }
}
