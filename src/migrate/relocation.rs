//! Files that the new container has at another path.

use super::{
    edit::commands,
    field::{is_within, replace_path, text, trimmed},
    plugin::Plugin,
    tools,
};

/// Directory of files whose path another sidecar's mounts take.
pub(super) const MOVED: &str = "/cmp-moved";

/// Makes programs of a path that is mounted elsewhere be found there. Tells everything that
/// changes for it.
pub(super) fn follow(plugin: &mut Plugin, path: &str, new: &str) -> String {
    let is_named = |text: &str| replace_path(text, path, new) != text;
    let mut changes = Vec::new();
    if commands(&plugin.text).concat().iter().any(|word| is_named(word)) {
        changes.push("its commands were changed; ".to_owned());
    }
    if plugin.sidecar.variables().iter().any(|variable| is_named(text(variable, "value"))) {
        changes.push("its variables were changed; ".to_owned());
    }
    changes.extend(search(plugin, path, new));
    changes.concat()
}

/// Makes programs be found at the new path, and tells how. A directory in the plugin's own PATH
/// is named there by its new path anyway.
fn search(plugin: &mut Plugin, path: &str, new: &str) -> Option<String> {
    let root = new.strip_suffix(path).unwrap_or_default();
    let (parent, _) = path.rsplit_once('/')?;
    let parent = if parent.is_empty() { "/" } else { parent };
    let own = plugin.sidecar.variable("PATH").map(str::to_owned);
    if let Some(own) = plugin.edit.path.clone().or(own) {
        let added = format!("{root}{parent}");
        let mut places: Vec<_> = own.split(':').collect();
        let at = places.iter().position(|place| trimmed(place) == parent)?;
        if places.iter().any(|place| is_within(place, path) || *place == added) {
            return None;
        }
        places.insert(at, &added);
        plugin.edit.path = Some(places.join(":"));
        return Some(format!("its PATH has {added} before {parent}; "));
    }
    let is_moved = |at: &String| at == parent || is_within(at, path);
    let moved = tools::SEARCHED.map(|at| format!("/{at}")).into_iter().filter(is_moved);
    let mut moved: Vec<_> = moved.map(|at| format!("{root}{at}")).collect();
    let export = plugin.edit.exports.get("PATH");
    moved.retain(|at| !export.is_some_and(|places| places.split(':').any(|place| place == at)));
    if moved.is_empty() {
        return None;
    }
    let moved = moved.join(":");
    plugin.edit.export("PATH", &format!("{moved}:$PATH"));
    Some(format!("its commands search {moved} for programs first; "))
}
