//! `ConfigMap`s of the input: manifests, and those that chart values create.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    error::MigrateError,
    field::{list, text},
    host::Host,
    lists::Lists,
    plugin::Plugin,
    yaml,
};

/// The ConfigMap that the chart makes of `configs.cmp.plugins`.
const OF_CHART: &str = "argocd-cmp-cm";

/// Keys and texts of one ConfigMap.
#[derive(Debug)]
struct ConfigMap {
    name: String,
    namespace: String,
    data: BTreeMap<String, String>,
    is_template: bool,
}

/// A text of a ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'m> {
    pub(super) text: &'m str,
    /// True if Helm has expanded the text as a template so far.
    pub(super) is_template: bool,
}

/// All `ConfigMap`s of the input.
#[derive(Debug)]
pub(super) struct ConfigMaps(Vec<ConfigMap>);

impl ConfigMaps {
    /// Reads them. `ConfigMap`s of the release's namespace come first.
    pub(super) fn new(documents: &[Value], host: &Host) -> Result<Self, MigrateError> {
        let manifests = documents.iter().filter_map(|document| read(document, false));
        let mut maps: Vec<_> = manifests.collect();
        let release = host.namespace_of_release();
        if let Some(values) = host.values() {
            maps.extend(of_plugins(values, release)?);
            maps.extend(list(values, "extraObjects").iter().filter_map(|o| extra(o, release)));
        }
        maps.sort_by_key(|map| map.namespace != release);
        Ok(Self(maps))
    }

    /// True if a ConfigMap of the input has this name and at least one key.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.0.iter().any(|map| map.name == name && !map.data.is_empty())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|map| map.name == name)
    }

    pub(super) fn entry(&self, name: &str, key: &str) -> Option<Entry<'_>> {
        let map = self.0.iter().find(|map| map.name == name)?;
        Some(Entry { text: map.data.get(key)?, is_template: map.is_template })
    }

    /// The keys of a ConfigMap, if it is in the input.
    pub(super) fn keys(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let map = self.0.iter().find(|map| map.name == name)?;
        Some(map.data.keys().map(String::as_str))
    }
}

fn read(document: &Value, is_template: bool) -> Option<ConfigMap> {
    let metadata = document.get("metadata").filter(|_| text(document, "kind") == "ConfigMap")?;
    let entries = |key: &str| document.get(key).and_then(Value::as_object).into_iter().flatten();
    let binary = entries("binaryData").filter_map(|(key, value)| {
        let bytes = BASE64_STANDARD.decode(value.as_str()?).ok()?;
        Some((key.clone(), String::from_utf8(bytes).ok()?))
    });
    let texts =
        entries("data").filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some(ConfigMap {
        name: text(metadata, "name").to_owned(),
        namespace: text(metadata, "namespace").to_owned(),
        data: texts.chain(binary).collect(),
        is_template,
    })
}

/// An object of `extraObjects`, which can be a map or a text. Helm puts one without a namespace
/// into that of the release.
fn extra(object: &Value, release: &str) -> Option<ConfigMap> {
    let parsed = object.as_str().and_then(|text| yaml::read(text.as_bytes()).ok());
    let mut map = read(parsed.as_ref().unwrap_or(object), true)?;
    if map.namespace.is_empty() {
        release.clone_into(&mut map.namespace);
    }
    Some(map)
}

/// The definitions that the chart makes of `configs.cmp.plugins`.
fn of_plugins(values: &Value, namespace: &str) -> Result<Option<ConfigMap>, MigrateError> {
    let Some(plugins) = plugins(values) else { return Ok(None) };
    let mut data = BTreeMap::new();
    for (name, spec) in plugins {
        let definition = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ConfigManagementPlugin",
            "metadata": {"name": name},
            "spec": spec,
        });
        data.insert(format!("{name}.yaml"), yaml::write(&definition)?);
    }
    let (name, namespace) = (OF_CHART.to_owned(), namespace.to_owned());
    Ok(Some(ConfigMap { name, namespace, data, is_template: false }))
}

/// True if a part of a manifest refers to a ConfigMap.
pub(super) fn is_used(part: &Value, name: &str) -> bool {
    const KEYS: [&str; 3] = ["configMap", "configMapKeyRef", "configMapRef"];
    match part {
        Value::Object(members) => members.iter().any(|(key, value)| {
            KEYS.contains(&key.as_str()) && text(value, "name") == name || is_used(value, name)
        }),
        Value::Array(items) => items.iter().any(|item| is_used(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `ConfigMap`s of definitions that nothing in the result uses.
pub(super) fn unused<'p>(
    host: &Host,
    plugins: impl Iterator<Item = &'p Plugin>,
    new: &Lists,
) -> BTreeSet<String> {
    let values = host.values().and_then(Value::as_object).into_iter().flatten();
    let elsewhere: Vec<_> =
        values.filter(|(key, _)| *key != "repoServer").map(|(_, part)| part).collect();
    let parts = || new.all_containers().chain(&new.volumes).chain(elsewhere.iter().copied());
    let mut names: BTreeSet<_> = plugins.filter_map(|plugin| plugin.config_map.clone()).collect();
    names.retain(|name| !parts().any(|part| is_used(part, name)));
    names
}

/// The items of `extraObjects` that are a `ConfigMap` of one of these names, and the others.
pub(super) fn extra_objects<'v>(
    host: &Host,
    values: &'v Value,
    names: &BTreeSet<String>,
) -> (Vec<&'v Value>, Vec<&'v Value>) {
    let release = host.namespace_of_release();
    list(values, "extraObjects").iter().partition(|object| {
        let map = extra(object, release).filter(|map| map.namespace == release);
        map.is_some_and(|map| names.contains(&map.name))
    })
}

/// The plugins in `configs.cmp`.
pub(super) fn plugins(values: &Value) -> Option<&serde_json::Map<String, Value>> {
    values.get("configs")?.get("cmp")?.get("plugins")?.as_object()
}
