//! Programs that nearly every image has, but not the same ones.

use std::collections::BTreeSet;

use super::{
    edit::commands,
    plugin::{Plugin, Sources},
    report::Report,
    scripts::texts,
    tools::{EVERYWHERE, shown},
};
use crate::{
    config::ToolSource,
    plugin::{file_names, shell_name},
};

/// A shell that Alpine and images from scratch lack. A copy of it needs libraries.
const BASH: &str = "bash";

/// Programs of which busybox, as in Alpine, lacks options.
const DIFFERENT: [&str; 13] = [
    "awk", "base64", "cp", "date", "diff", "find", "grep", "head", "mktemp", "sed", "sort", "tar",
    "xargs",
];

/// Programs that shells need not start.
const BUILTIN: [&str; 6] = ["echo", "false", "printf", "pwd", "test", "true"];

/// Tells which of these programs the commands of a plugin use whose image is no longer its
/// sidecar's. `image` is the new one, and `source` is where programs of others come from.
pub(super) fn warn(
    plugins: &[Plugin],
    (image, source): (&str, ToolSource),
    sources: &Sources<'_>,
    report: &mut Report,
) {
    let starts_bash = |command: &Vec<String>| {
        command.first().is_some_and(|program| shell_name(program) == Some(BASH))
    };
    let has_bash = |plugin: &Plugin| {
        plugin.sidecar.image() == image && commands(&plugin.text).iter().any(starts_bash)
    };
    let lacks_bash = !plugins.iter().any(has_bash);
    let mut different = BTreeSet::new();
    for plugin in plugins.iter().filter(|plugin| plugin.sidecar.image() != image) {
        let names = named(plugin, sources);
        match source {
            ToolSource::InitContainer => {
                if names.contains(BASH) && lacks_bash {
                    report.check(without_bash(plugin, image));
                }
                different.extend(names.into_iter().filter(|name| DIFFERENT.contains(name)));
            }
            ToolSource::ImageVolume if names.is_empty() => {}
            ToolSource::ImageVolume => report.check(of_volume(plugin, image, names)),
        }
    }
    if !different.is_empty() {
        report.check(format!(
            "commands that had another image use these programs of {} now: {}: those of Alpine \
             (busybox) lack options of GNU's: if commands need them, put GNU's into that image",
            shown(image),
            list(different)
        ));
    }
}

/// The base programs that the commands of a plugin name, also in scripts of the input.
fn named(plugin: &Plugin, sources: &Sources<'_>) -> BTreeSet<&'static str> {
    let words = commands(&plugin.text).concat();
    let texts = words.iter().map(String::as_str).chain(texts(plugin, sources));
    let names: BTreeSet<&str> = texts.flat_map(file_names).collect();
    let is_started = |name: &&str| names.contains(name) && !BUILTIN.contains(name);
    EVERYWHERE.into_iter().filter(is_started).collect()
}

fn without_bash(plugin: &Plugin, image: &str) -> String {
    let Plugin { name, sidecar, .. } = plugin;
    let (old, new) = (shown(sidecar.image()), shown(image));
    format!(
        "plugin `{name}`: its commands use bash, which is not copied out of {old}, and {new} can \
         lack it: put it into that image, or write the commands for sh"
    )
}

/// The directories of a volume with an image come first in `PATH`.
fn of_volume(plugin: &Plugin, image: &str, names: BTreeSet<&str>) -> String {
    let Plugin { name, sidecar, .. } = plugin;
    let (old, new) = (shown(sidecar.image()), shown(image));
    format!(
        "plugin `{name}`: PATH has these programs of {old} before those of {new}: {}: they run only \
         if {new} has the libraries that they need: otherwise put the plugin's tools into that image",
        list(names)
    )
}

fn list(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
