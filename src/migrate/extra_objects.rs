//! The objects in `extraObjects` of the chart, without `ConfigMap`s of the old sidecars.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    config_map::name_in_release,
    field::{list, text},
    host::Host,
    lists::Lists,
    plugin::Plugin,
};

/// The objects that stay, and the names of those with definitions.
#[derive(Debug, Default)]
pub(super) struct ExtraObjects<'v> {
    /// The objects that stay.
    pub(super) kept: Vec<&'v Value>,
    /// Names of the `ConfigMap`s that go.
    pub(super) removed: BTreeSet<String>,
    /// Names of the `ConfigMap`s that stay, although they have definitions.
    pub(super) defining: BTreeSet<String>,
}

impl<'v> ExtraObjects<'v> {
    /// A `ConfigMap` goes if nothing that stays names it. `validate` would find each of its
    /// plugins twice.
    pub(super) fn new(
        host: &'v Host,
        documents: &[Value],
        plugins: &[Plugin],
        new: &Lists,
    ) -> Self {
        let Some(values) = host.values() else { return Self::default() };
        let sources = plugins.iter().filter_map(|plugin| plugin.config_map.clone());
        let mut defining: BTreeSet<_> = sources.collect();
        let objects = list(values, "extraObjects");
        let with_name = |object| {
            let name = name_in_release(object, objects, host.namespace_of_release());
            (object, name.filter(|name| defining.contains(name)))
        };
        let objects: Vec<_> = objects.iter().map(with_name).collect();
        defining.retain(|name| objects.iter().any(|(_, other)| other.as_ref() == Some(name)));

        let rest = host.rest();
        let others = documents.iter().filter(|document| !host.is(document)).chain([&rest]);
        let others: Vec<_> = others.collect();
        let mut removed = Plugin::unused_config_maps(plugins, new);
        removed.retain(|name| {
            let mut others = others.iter().filter(|other| !is_config_map(other, name));
            defining.contains(name) && !others.any(|other| mentions(other, name))
        });
        // One that stays can name others.
        loop {
            let stays = |name: &Option<String>| name.as_ref().is_none_or(|n| !removed.contains(n));
            let kept = objects.iter().filter(|(_, name)| stays(name));
            let kept: Vec<_> = kept.map(|(object, _)| *object).collect();
            let is_named = |name: &&String| kept.iter().any(|object| mentions(object, name));
            let used: Vec<_> = removed.iter().filter(is_named).cloned().collect();
            if used.is_empty() {
                defining.retain(|name| !removed.contains(name));
                return Self { kept, removed, defining };
            }
            removed.retain(|name| !used.contains(name));
        }
    }
}

fn is_config_map(document: &Value, name: &str) -> bool {
    let is_named = document.get("metadata").is_some_and(|metadata| text(metadata, "name") == name);
    is_named && text(document, "kind") == "ConfigMap"
}

/// True if a key or a text in `part` has the name in it.
fn mentions(part: &Value, name: &str) -> bool {
    match part {
        Value::String(text) => text.contains(name),
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        Value::Object(members) => {
            members.iter().any(|(key, value)| key.contains(name) || mentions(value, name))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
