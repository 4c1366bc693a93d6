//! `ConfigMap`s of the input: manifests, and those that chart values create.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    field::{list, text},
    host::Host,
};
use crate::yaml;

/// The ConfigMap that the chart makes of `configs.cmp.plugins`.
const OF_CHART: &str = "argocd-cmp-cm";

/// Keys and texts of one ConfigMap.
#[derive(Debug)]
struct ConfigMap {
    name: String,
    namespace: String,
    data: BTreeMap<String, String>,
    source: MapSource,
}

/// The place of a ConfigMap in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapSource {
    /// A manifest.
    Manifest,
    /// `extraObjects` of the chart, which Helm expands as a template.
    ExtraObjects,
    /// `configs.cmp` of the chart.
    Plugins,
    /// The same in an `ApplicationSet`, which can replace braces before.
    PluginsOfSet,
}

/// A text of a ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'m> {
    pub(super) text: &'m str,
    pub(super) source: MapSource,
}

/// All `ConfigMap`s of the input.
#[derive(Debug)]
pub(super) struct ConfigMaps(Vec<ConfigMap>);

impl ConfigMaps {
    /// Reads them. `ConfigMap`s of the release's namespace come first.
    pub(super) fn new(documents: &[Value], host: &Host) -> Self {
        let manifests = documents.iter().filter_map(|document| read(document, MapSource::Manifest));
        let mut maps: Vec<_> = manifests.collect();
        let release = host.namespace_of_release();
        if let Some(values) = host.values() {
            let source = if host.is_set() { MapSource::PluginsOfSet } else { MapSource::Plugins };
            maps.extend(of_plugins(values, release).map(|map| ConfigMap { source, ..map }));
            maps.extend(list(values, "extraObjects").iter().filter_map(|o| extra(o, release)));
        }
        maps.sort_by_key(|map| map.namespace != release);
        Self(maps)
    }

    /// True if a manifest of the input defines the ConfigMap, and not the chart.
    pub(super) fn is_manifest(&self, name: &str) -> bool {
        let mut maps = self.0.iter().filter(|map| map.name == name).map(|map| map.source);
        maps.next() == Some(MapSource::Manifest) && maps.all(|source| source == MapSource::Manifest)
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
        Some(Entry { text: map.data.get(key)?, source: map.source })
    }

    /// The keys of a ConfigMap, if it is in the input.
    pub(super) fn keys(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let map = self.0.iter().find(|map| map.name == name)?;
        Some(map.data.keys().map(String::as_str))
    }
}

fn read(document: &Value, source: MapSource) -> Option<ConfigMap> {
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
        source,
    })
}

/// An object of `extraObjects`, which can be a map or a text. Helm puts one without a namespace
/// into that of the release, which is also what a template most often stands for.
fn extra(object: &Value, release: &str) -> Option<ConfigMap> {
    let parsed = object.as_str().and_then(|text| yaml::read(text.as_bytes()).ok());
    let mut map = read(parsed.as_ref().unwrap_or(object), MapSource::ExtraObjects)?;
    if map.namespace.is_empty() || map.namespace.contains("{{") {
        release.clone_into(&mut map.namespace);
    }
    Some(map)
}

/// The name of an object of `extraObjects`, if it is a ConfigMap of the release. If the
/// namespace of the release is not known, that is every one with a name of its own.
pub(super) fn name_in_release(object: &Value, all: &[Value], release: &str) -> Option<String> {
    let map = extra(object, release)?;
    let same =
        || all.iter().filter_map(|other| extra(other, release)).filter(|o| o.name == map.name);
    let is_only = || release.is_empty() && same().count() == 1;
    (map.namespace == release || is_only()).then_some(map.name)
}

/// The definitions that the chart makes of `configs.cmp.plugins`.
fn of_plugins(values: &Value, namespace: &str) -> Option<ConfigMap> {
    let plugins = plugins(values)?;
    let mut data = BTreeMap::new();
    for (name, spec) in plugins {
        let definition = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ConfigManagementPlugin",
            "metadata": {"name": name},
            "spec": spec,
        });
        data.insert(format!("{name}.yaml"), yaml::write(&definition));
    }
    let (name, namespace) = (OF_CHART.to_owned(), namespace.to_owned());
    Some(ConfigMap { name, namespace, data, source: MapSource::Plugins })
}

/// The plugins in `configs.cmp`.
pub(super) fn plugins(values: &Value) -> Option<&serde_json::Map<String, Value>> {
    values.get("configs")?.get("cmp")?.get("plugins")?.as_object()
}
