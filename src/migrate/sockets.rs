//! Programs and files that a sidecar kept in the directory of the sockets.

use std::collections::BTreeSet;

use super::{
    edit::commands,
    field::{replace_path, text},
    own::is_setting,
    plugin::Plugin,
    report::Report,
};
use crate::plugin::paths;

/// Reports commands and variables of a plugin with paths that no plugin may read.
pub(super) fn remark(plugin: &Plugin, report: &mut Report) {
    let socket_dir = plugin.sidecar.socket_dir();
    let directory = format!("{socket_dir}/");
    let words = commands(&plugin.text).concat();
    let found = words.iter().flat_map(|word| paths(word, &[&directory]));
    let mut found: BTreeSet<_> = found.map(|(_, path)| path).collect();
    let is_there = |value: &str| replace_path(value, socket_dir, "") != value;
    let variables = plugin.sidecar.variables().iter();
    let variables = variables.filter(|variable| is_there(text(variable, "value")));
    let names = variables.map(|variable| text(variable, "name"));
    found.extend(names.filter(|name| !is_setting(name)));
    if !found.is_empty() {
        let found: Vec<_> = found.into_iter().collect();
        report.check(format!(
            "plugin `{}`: no plugin may read {socket_dir}, the directory of the sockets, and its \
             commands or variables name files there: {}: put them into the image, or into a volume \
             that an init container fills and that is mounted elsewhere, and change the paths",
            plugin.name,
            found.join(", ")
        ));
    }
}
