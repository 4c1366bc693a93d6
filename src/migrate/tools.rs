//! The image of the new container, and programs of other images.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    edit::commands,
    error::MigrateError,
    field::{is_within, label, text, unused},
    host::{Form, Host},
    lists::Lists,
    plugin::Plugin,
    report::Report,
    volume::named,
};
use crate::{
    config::{SidecarKind, ToolSource},
    plugin::shell_name,
    plural::plural,
};

/// Directory with one directory of programs for each further image.
pub(super) const DIRECTORY: &str = "/cmp-tools";

/// Volume of the programs that init containers copy, if this name is free, and the
/// beginning of further names.
const VOLUME: &str = "cmp-tools";

/// Most programs that one init container looks for.
const MAX_PROGRAMS: usize = 200;

/// Longest name of a program.
const MAX_NAME: usize = 64;

/// Most letters of an image's name in the name of a container.
const MAX_LABEL: usize = 40;

/// Directories with programs in most images.
pub(super) const SEARCHED: [&str; 5] =
    ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "bin"];

/// Words of the shell itself.
const KEYWORDS: [&str; 22] = [
    "case", "cd", "command", "do", "done", "elif", "else", "errexit", "esac", "exec", "exit",
    "export", "fi", "for", "if", "in", "nounset", "pipefail", "set", "then", "until", "while",
];

/// Programs of nearly every image. A copy from another image could lack its libraries.
pub(super) const EVERYWHERE: [&str; 46] = [
    "[", "awk", "base64", "basename", "bash", "cat", "chmod", "chown", "cp", "cut", "date", "dd",
    "diff", "dirname", "echo", "env", "expr", "false", "find", "grep", "gzip", "head", "id", "ln",
    "ls", "mkdir", "mktemp", "mv", "printf", "pwd", "rm", "rmdir", "sed", "seq", "sh", "sleep",
    "sort", "tail", "tar", "tee", "test", "tr", "true", "uniq", "wc", "xargs",
];

/// Image of the new container, and everything that brings programs of others.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Empty if the operator or the chart chooses the image.
    pub(super) image: String,
    /// Name of the volume that init containers fill.
    volume: String,
    pub(super) init_containers: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
}

/// An image other than the sidecar's.
#[derive(Debug)]
struct Image<'i> {
    reference: &'i str,
    /// Part of the names of its container, volume and directory.
    name: String,
}

impl Tools {
    /// Takes the image that most sidecars have; its programs need no copy.
    pub(super) fn new(
        plugins: &mut [Plugin],
        source: ToolSource,
        old: &Lists,
        report: &mut Report,
    ) -> Self {
        let images = images(plugins);
        let count = |image: &str| plugins.iter().filter(|p| p.sidecar.image() == image).count();
        // `max_by_key` returns the last of equals, and the first sidecar's is wanted.
        let most = images.iter().rev().max_by_key(|image| count(image));
        let most = most.map(String::as_str).unwrap_or_default();
        let has_volume = |name: &str| named(&old.volumes, name).is_some();
        let has = |name: &str| {
            has_volume(name)
                || old.all_containers().any(|container| text(container, "name") == name)
        };
        let volume = unused(VOLUME, has_volume);
        let mut tools = Self { image: most.to_owned(), volume, ..Self::default() };
        report.change(format!(
            "the sidecar's image is {}, with {} of {}",
            shown(most),
            plural(count(most), "plugin"),
            plugins.len()
        ));
        let mut taken = BTreeSet::new();
        for image in images.iter().filter(|image| *image != most) {
            let name = unused(&short(image), |name| {
                taken.contains(name) || has(&format!("{VOLUME}-{name}"))
            });
            let image = Image { reference: image, name };
            tools.bring(&image, plugins, source);
            report.check(image.advice(source));
            let users = plugins.iter().filter(|plugin| plugin.sidecar.image() == image.reference);
            users.for_each(|plugin| image.warn_of_paths(plugin, source, report));
            taken.insert(image.name);
        }
        tools
    }

    /// Refuses a sidecar without an image if nothing would give the result one. The operator gives
    /// its ordinary sidecars the repo-server's.
    pub(super) fn refuse_missing_image(
        &self,
        plugins: &[Plugin],
        host: &Host,
        kind: SidecarKind,
    ) -> Result<(), MigrateError> {
        let missing = plugins.iter().find(|plugin| plugin.sidecar.image().is_empty());
        let Some(plugin) = missing else { return Ok(()) };
        let (container, host_name) = (plugin.sidecar.name().to_owned(), host.name());
        if !self.image.is_empty() {
            return Err(MigrateError::NoImage { host: host_name, container });
        }
        if host.form == Form::Operator && kind == SidecarKind::Native {
            return Err(MigrateError::NoNativeImage { host: host_name, container });
        }
        Ok(())
    }

    /// Tells which commands begin with `sh` now, unless a command shows that the image has a shell.
    pub(super) fn warn_of_shell(&self, plugins: &[Plugin], report: &mut Report) {
        let starts_shell = |command: &Vec<String>| {
            command.first().is_some_and(|program| shell_name(program).is_some())
        };
        let has_shell = |plugin: &Plugin| {
            plugin.sidecar.image() == self.image && commands(&plugin.text).iter().any(starts_shell)
        };
        if plugins.iter().any(has_shell) {
            return;
        }
        for plugin in plugins.iter().filter(|plugin| !plugin.edit.exports.is_empty()) {
            report.check(format!(
                "plugin `{}`: `sh` sets variables before its commands, which fail if {} has no `sh`, \
                 as an image from scratch: then use an image with a shell",
                plugin.name,
                shown(&self.image)
            ));
        }
    }

    /// Makes programs of an image available in a directory, and searches them first.
    fn bring(&mut self, image: &Image<'_>, plugins: &mut [Plugin], source: ToolSource) {
        let Image { reference, name } = image;
        let directory = format!("{DIRECTORY}/{name}");
        let mut words = BTreeSet::new();
        for plugin in plugins.iter_mut().filter(|plugin| plugin.sidecar.image() == *reference) {
            let commands = commands(&plugin.text).concat();
            words.extend(commands.iter().flat_map(|word| programs(word)));
            let places = match source {
                ToolSource::InitContainer => directory.clone(),
                ToolSource::ImageVolume => SEARCHED.map(|at| format!("{directory}/{at}")).join(":"),
            };
            plugin.edit.export("PATH", &format!("{places}:$PATH"));
        }
        match source {
            ToolSource::InitContainer => self.copy(image, &words),
            ToolSource::ImageVolume => {
                let volume = format!("{VOLUME}-{name}");
                self.volumes.push(json!({"name": volume, "image": {"reference": reference}}));
                self.mount(&volume, &directory);
            }
        }
    }

    fn copy(&mut self, image: &Image<'_>, words: &BTreeSet<String>) {
        let Image { reference, name } = image;
        if self.volumes.is_empty() {
            self.volumes.push(json!({"name": self.volume, "emptyDir": {}}));
            self.mount(&self.volume.clone(), DIRECTORY);
        }
        let words: Vec<_> = words.iter().take(MAX_PROGRAMS).map(String::as_str).collect();
        let script = format!(
            "mkdir -p {DIRECTORY}/{name}\nfor program in {}; do\n  file=$(command -v \"$program\") \
             || continue\n  case $file in /*) cp -L \"$file\" {DIRECTORY}/{name}/ ;; esac\ndone\n",
            words.join(" ")
        );
        self.init_containers.push(json!({
            "name": format!("{VOLUME}-{name}"),
            "image": reference,
            "command": ["sh", "-eu", "-c", script],
            "volumeMounts": [{"name": self.volume, "mountPath": DIRECTORY}],
        }));
    }

    fn mount(&mut self, volume: &str, path: &str) {
        self.mounts.push(json!({"name": volume, "mountPath": path, "readOnly": true}));
    }
}

impl Image<'_> {
    /// Tells which programs of a plugin are not found by their names.
    fn warn_of_paths(&self, plugin: &Plugin, source: ToolSource, report: &mut Report) {
        let paths = programs_by_path(plugin);
        if paths.is_empty() {
            return;
        }
        let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
        let remedy = match source {
            ToolSource::InitContainer => "name them without their directories".to_owned(),
            ToolSource::ImageVolume => format!("write {DIRECTORY}/{} before them", self.name),
        };
        report.check(format!(
            "plugin `{}`: its commands name programs of {} by their paths, where the sidecar's \
             image can lack them: {paths}: {remedy}, or put them into that image",
            plugin.name,
            shown(self.reference)
        ));
    }

    fn advice(&self, source: ToolSource) -> String {
        let (image, name) = (shown(self.reference), &self.name);
        match source {
            ToolSource::InitContainer => format!(
                "init container `{VOLUME}-{name}` copies the programs that definitions name out \
                 of {image}: programs that need libraries or other files of that image do not \
                 run; put them into the sidecar's image instead. The init container needs `sh`, \
                 `mkdir` and `cp` in {image}, which an image from scratch does not have: use \
                 --tools image-volume for it"
            ),
            ToolSource::ImageVolume => format!(
                "{image} is mounted at {DIRECTORY}/{name}: its programs run if they are static; \
                 put others into the sidecar's image"
            ),
        }
    }
}

/// Programs that the commands of a plugin name by their paths. Those that every image has and
/// those in volumes are left out.
fn programs_by_path(plugin: &Plugin) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+-/${}".contains(c);
    let is_program = |path: &str, is_first: bool| {
        let (directory, name) = path.rsplit_once('/').unwrap_or_default();
        let is_usual = SEARCHED.iter().any(|at| directory.strip_prefix('/') == Some(at));
        let is_searched = directory.ends_with("/bin") || directory.ends_with("/sbin");
        let mut mounts = plugin.sidecar.mounts().iter();
        path.starts_with('/')
            && !path.starts_with("//")
            && !name.is_empty()
            && (is_first || is_searched)
            && !(is_usual && EVERYWHERE.contains(&name))
            && !mounts.any(|mount| is_within(path, text(mount, "mountPath")))
    };
    let mut found = BTreeSet::new();
    for command in commands(&plugin.text) {
        for (index, word) in command.iter().enumerate() {
            let paths = word.split(|c| !is_part(c)).filter(|path| {
                let start = path.as_ptr().addr() - word.as_ptr().addr();
                begins_word(word.get(..start).unwrap_or_default()) && is_program(path, index == 0)
            });
            found.extend(paths.map(str::to_owned));
        }
    }
    found
}

/// True if a word of a script begins after this text, also in quotes.
fn begins_word(before: &str) -> bool {
    let before = before.strip_suffix(['"', '\'']).unwrap_or(before);
    let before = before.strip_suffix('\\').unwrap_or(before);
    before.chars().next_back().is_none_or(|c| c.is_whitespace() || "=(;|&`[{,<!".contains(c))
}

/// The images of all sidecars, each once, in their order.
fn images(plugins: &[Plugin]) -> Vec<String> {
    let mut images: Vec<String> = Vec::new();
    for image in plugins.iter().map(|plugin| plugin.sidecar.image()) {
        if !images.iter().any(|known| known == image) {
            images.push(image.to_owned());
        }
    }
    images
}

/// The image for people.
pub(super) fn shown(image: &str) -> &str {
    if image.is_empty() { "the repo-server's" } else { image }
}

/// The last part of an image's name, without its tag.
fn short(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = label(name.split([':', '@']).next().unwrap_or_default(), MAX_LABEL);
    if name.is_empty() { "repo-server".to_owned() } else { name }
}

/// Words of a command line or a script that can be names of programs.
fn programs(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    let words = text.split(move |c| !is_part(c));
    let is_program = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && !word.contains('/')
            && word.len() <= MAX_NAME
            && !EVERYWHERE.contains(word)
            && !KEYWORDS.contains(word)
    };
    words.filter(is_program).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_words_of_scripts_that_not_every_image_has() {
        let found: Vec<_> =
            programs("set -e; helm template . | grep x && $(sops --decrypt a/b.yaml)").collect();
        assert_eq!(found, ["helm", "template", "x", "sops"]);
    }

    #[test]
    fn names_of_images_become_names_of_containers() {
        for (image, name) in [
            ("registry.example/argocd:v3.2.1", "argocd"),
            ("registry:5000/My_Tools@sha256:0", "my-tools"),
            ("", "repo-server"),
        ] {
            assert_eq!(short(image), name);
        }
    }
}
