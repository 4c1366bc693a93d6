//! Paths of mounts with variables in them: `subPathExpr`.

use serde_json::{Value, json};

use super::{
    field::{set, text, trimmed},
    plugin::Plugin,
    reference::{self, names, reference},
    report::Report,
    sidecar::{Sidecar, is_at},
    variable::Variables,
};

const KEY: &str = "subPathExpr";

/// True if the expression of a mount has one value in all sidecars with the mount.
pub(super) fn agrees(mount: &Value, sidecars: &[Sidecar]) -> bool {
    let has_it = |sidecar: &&Sidecar| {
        let is_it = |other: &Value| {
            is_at(other, text(mount, "mountPath")) && text(other, KEY) == text(mount, KEY)
        };
        sidecar.mounts().iter().any(is_it)
    };
    names(text(mount, KEY)).all(|name| {
        let variable = |sidecar: &'_ Sidecar| {
            sidecar.variables().iter().find(|variable| text(variable, "name") == name).cloned()
        };
        let mut values = sidecars.iter().filter(has_it).map(variable);
        let first = values.next();
        values.all(|value| Some(value) == first)
    })
}

/// Gives variables in expressions their new names, and reports those that are gone: Kubernetes
/// starts no container without them.
pub(super) fn follow(
    mounts: &mut [Value],
    variables: &Variables,
    plugins: &[Plugin],
    report: &mut Report,
) {
    for plugin in plugins {
        for old in plugin.sidecar.mounts().iter().filter(|old| old.get(KEY).is_some()) {
            let path = trimmed(text(old, "mountPath"));
            let path = plugin.edit.moved.get(path).map_or(path, String::as_str);
            let new = mounts.iter_mut().find(|new| is_at(new, path) && new.get(KEY).is_some());
            let Some(new) = new else { continue };
            for (old, name) in &plugin.edit.renamed {
                let expression = reference::renamed(text(new, KEY), old, name);
                set(new, &[KEY], json!(expression));
            }
            for name in names(text(new, KEY)).filter(|name| !variables.may_have(name, plugin)) {
                report.check(format!(
                    "plugin `{}`: subPathExpr of {path} refers to {}, which the new container does \
                     not have, so it would not start: write subPath, or another variable",
                    plugin.name,
                    reference(name)
                ));
            }
        }
    }
}
