//! Scripts and programs that commands start, and their fixed paths in /tmp.

use std::collections::BTreeSet;

use super::{
    edit::commands,
    field::text,
    plugin::{Plugin, Sources},
    report::Report,
    tools::EVERYWHERE,
};
use crate::{
    config::Profile,
    plugin::{fixed_path, shell_name},
};

/// Endings of the names of scripts.
const ENDINGS: [&str; 6] = [".sh", ".bash", ".py", ".rb", ".pl", ".js"];

/// Programs that write temporary files to $TMPDIR, and interpreters of scripts.
const USUAL: [&str; 26] = [
    "argocd-vault-plugin",
    "cdk8s",
    "cue",
    "envsubst",
    "git",
    "helm",
    "helmfile",
    "jb",
    "jq",
    "jsonnet",
    "kcl",
    "ksops",
    "kubectl",
    "kustomize",
    "node",
    "npx",
    "perl",
    "python",
    "python3",
    "ruby",
    "sops",
    "timeout",
    "tk",
    "vals",
    "yq",
    "ytt",
];

/// The remedies for a fixed path.
const REMEDY: &str = "$TMPDIR, or migrate with --profile namespaces, in which each command has its \
                      own /tmp";

/// Names the fixed paths of scripts in the input, and the programs that may have others. With
/// namespaces, both work.
pub(super) fn warn(
    plugins: &[Plugin],
    sources: &Sources<'_>,
    profile: Profile,
    report: &mut Report,
) {
    if profile == Profile::Namespaces {
        return;
    }
    let mut unknown = BTreeSet::new();
    for plugin in plugins {
        for program in programs(plugin) {
            let file = file_of(plugin, &program);
            match sources.file(&plugin.sidecar, file) {
                Some(script) => warn_of_path(plugin, (file, script), report),
                None => _ = unknown.insert(format!("`{program}`")),
            }
        }
    }
    if !unknown.is_empty() {
        let names = unknown.into_iter().collect::<Vec<_>>().join(", ");
        report.check(format!(
            "commands start {names}, and the input does not show what that writes: requests may not \
             write to fixed paths in /tmp, such as /tmp/work: use {REMEDY}"
        ));
    }
}

/// The texts of a plugin's scripts that the input has.
pub(super) fn texts<'s>(plugin: &Plugin, sources: &'s Sources<'_>) -> Vec<&'s str> {
    let programs = programs(plugin);
    let files = programs.iter().map(|program| file_of(plugin, program));
    files.filter_map(|file| sources.file(&plugin.sidecar, file)).collect()
}

fn warn_of_path(plugin: &Plugin, (file, script): (&str, &str), report: &mut Report) {
    let Some((at, path)) = fixed_path(script) else { return };
    let line = script.get(..at).unwrap_or_default().matches('\n').count() + 1;
    report.check(format!(
        "plugin `{}`: {file} has the fixed path {path} in line {line}, to which requests may not \
         write: use {REMEDY}",
        plugin.name
    ));
}

/// Programs and scripts of a plugin's commands, apart from usual programs.
fn programs(plugin: &Plugin) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for command in commands(&plugin.text) {
        found.extend(started(&command).filter(|program| !is_usual(program)).map(str::to_owned));
        let scripts = command.iter().flat_map(|word| scripts(word));
        found.extend(scripts.map(str::to_owned));
    }
    found
}

/// The program of a command, or the file that its shell reads.
fn started(command: &[String]) -> Option<&str> {
    let (program, arguments) = command.split_first()?;
    match shell_name(program) {
        None => Some(program),
        Some(_) => arguments.first().map(String::as_str).filter(|word| !word.starts_with('-')),
    }
}

fn is_usual(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    USUAL.contains(&name) || EVERYWHERE.contains(&name)
}

/// Paths in a word or a script that end like those of scripts.
fn scripts(word: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+-/${}".contains(c);
    let paths = word.split(move |c| !is_part(c));
    paths.filter(|path| {
        ENDINGS.iter().any(|ending| path.len() > ending.len() && path.ends_with(ending))
    })
}

/// The path of a program: that of a mount with its name, if it is named without a directory.
fn file_of<'p>(plugin: &'p Plugin, program: &'p str) -> &'p str {
    let paths = plugin.sidecar.mounts().iter().map(|mount| text(mount, "mountPath"));
    let mut files = paths.filter(|path| path.rsplit('/').next() == Some(program));
    files.next().unwrap_or(program)
}
