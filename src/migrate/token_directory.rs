//! Volumes at the directory of tokens, of which a plugin may only read what it names.

use std::collections::BTreeSet;

use super::{
    edit::commands,
    field::{is_within, text, trimmed},
    plugin::Plugin,
    report::Report,
};
use crate::plugin::paths;

/// Directory of the service account's token, which nobody gets without a decision.
const SERVICE_ACCOUNT: &str = "kubernetes.io";

/// Lets a plugin read the files of a volume at `path` that its variables and commands name.
pub(super) fn allow(path: &str, volume: &str, plugin: &mut Plugin, report: &mut Report) {
    let (found, name) = (files(path, plugin), &plugin.name);
    let rule = format!("of {path}, a plugin may only read the files that it names");
    if found.is_empty() {
        return report.check(format!(
            "plugin `{name}`: {rule}: add those of the volume `{volume}` that it needs to \
             spec.sandbox.read, such as {path}/FILE, or mount the volume at another path"
        ));
    }
    let shown: Vec<_> = found.iter().map(String::as_str).collect();
    report.check(format!(
        "plugin `{name}`: {rule}: spec.sandbox.read lets it read {}: add others of the volume \
         `{volume}`",
        shown.join(", ")
    ));
    plugin.edit.read.extend(found);
}

fn files(path: &str, plugin: &Plugin) -> BTreeSet<String> {
    let words = commands(&plugin.text).concat();
    let directory = format!("{path}/");
    let named = words.iter().flat_map(|word| paths(word, &[&directory])).map(|(_, path)| path);
    let variables = plugin.sidecar.variables().iter().map(|variable| text(variable, "value"));
    let closed = format!("{directory}{SERVICE_ACCOUNT}");
    let is_file = |file: &&str| {
        file.starts_with(&directory) && !is_within(file, &closed) && !file.contains(['$', ':', '*'])
    };
    let found = named.chain(variables).map(trimmed).filter(is_file);
    found.filter(|file| !file.split('/').any(|part| part == "..")).map(str::to_owned).collect()
}
