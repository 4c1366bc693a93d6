//! Variables from all keys of a ConfigMap or Secret (`envFrom`).

use serde_json::Value;

use super::{config_map::ConfigMaps, field::text, plugin::Plugin, report::Report};

/// Tells if a variable of another sidecar can have the name of one in `envFrom`.
pub(super) fn warn_of_clashes(
    plugin: &Plugin,
    plugins: &[Plugin],
    config_maps: &ConfigMaps,
    report: &mut Report,
) {
    let others = || plugins.iter().filter(|other| other.name != plugin.name);
    for source in plugin.sidecar.variable_sources() {
        let (kind, name) = source_of(source);
        let prefix = text(source, "prefix");
        let has_other = |other: &&Plugin, key: Option<&str>| {
            let is_named = |v: &Value| key.is_none_or(|key| text(v, "name") == key);
            let is_other =
                |s: &Value| s != source && key.is_none_or(|key| may_have(s, key, config_maps));
            other.sidecar.variables().iter().any(is_named)
                || other.sidecar.variable_sources().iter().any(is_other)
        };
        let keys = config_maps.keys(name).filter(|_| kind == "ConfigMap");
        let clashes = match keys {
            None => others().any(|other| has_other(&other, None)),
            Some(mut keys) => keys.any(|key| {
                let key = format!("{prefix}{key}");
                others().any(|other| has_other(&other, Some(&key)))
            }),
        };
        if clashes {
            report.check(format!(
                "plugin `{}`: its variables from {kind} {name} (envFrom) may have names that \
                 variables of other sidecars have too, and each name has one value now: give such \
                 a variable another name, and set it in the plugin's commands",
                plugin.name
            ));
        }
    }
}

/// True if a source may make a variable of this name.
fn may_have(source: &Value, name: &str, config_maps: &ConfigMaps) -> bool {
    let Some(key) = name.strip_prefix(text(source, "prefix")) else { return false };
    let (kind, map) = source_of(source);
    let keys = config_maps.keys(map).filter(|_| kind == "ConfigMap");
    keys.is_none_or(|mut keys| keys.any(|other| other == key))
}

/// Kind and name of a source of variables.
fn source_of(source: &Value) -> (&'static str, &str) {
    let kinds = [("ConfigMap", "configMapRef"), ("Secret", "secretRef")];
    let found = kinds.into_iter().find_map(|(kind, key)| Some((kind, source.get(key)?)));
    found.map_or(("source", ""), |(kind, reference)| (kind, text(reference, "name")))
}
