//! The variables of all sidecars, in one container.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    config_map::ConfigMaps,
    edit::Edit,
    field::{is_within, set, text},
    plugin::Plugin,
    report::Report,
};

/// Variables that the sandbox sets for each request, or that would change the program.
const OWN: [&str; 4] = ["TMPDIR", "PWD", "ARGOCD_BINARY_NAME", "ARGOCD_CMP_WORKDIR"];

/// Directories that a request gets for itself. Outside /tmp, they are also where the
/// files of the image are that its copies begin with.
const HOMES: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];

/// Variables of argocd-cmp-server that became flags.
const FLAGS: [&str; 2] = ["ARGOCD_CMP_SERVER_LOGLEVEL", "ARGOCD_CMP_SERVER_LOGFORMAT"];

/// True if the sandbox or the new container sets this variable.
pub(super) fn is_own(name: &str) -> bool {
    OWN.contains(&name) || FLAGS.contains(&name)
}

/// True if the variable is a directory that the work volume replaces.
fn is_temporary(variable: &Value) -> bool {
    HOMES.contains(&text(variable, "name")) && is_within(text(variable, "value"), "/tmp")
}

/// Names and values of the variables that have a value in the manifest.
pub(super) fn literal(variables: &[Value]) -> Vec<(String, String)> {
    let pair = |variable: &Value| {
        let value = variable.get("value")?.as_str()?;
        Some((text(variable, "name").to_owned(), value.to_owned()))
    };
    variables.iter().filter_map(pair).collect()
}

/// The variables of the new container.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) env: Vec<Value>,
    pub(super) env_from: Vec<Value>,
}

/// A variable that at least one plugin had.
#[derive(Debug)]
struct Shared {
    name: String,
    /// Its value for each plugin, by the plugin's position.
    values: BTreeMap<usize, Value>,
}

impl Variables {
    /// Merges the variables. Values that differ get a name for each plugin.
    pub(super) fn merge(
        plugins: &mut [Plugin],
        config_maps: &ConfigMaps,
        report: &mut Report,
    ) -> Self {
        let mut merged = Self::default();
        for shared in collect(plugins, report) {
            merged.add(&shared, plugins, report);
        }
        for source in plugins.iter().flat_map(|plugin| plugin.sidecar.variable_sources()) {
            if !merged.env_from.contains(source) {
                merged.env_from.push(source.clone());
            }
        }
        merged.hide(plugins, config_maps, report);
        merged
    }

    fn add(&mut self, shared: &Shared, plugins: &mut [Plugin], report: &mut Report) {
        let Shared { name, values: each } = shared;
        let mut values = each.values();
        let first = values.next();
        if let Some(value) = first.filter(|first| values.all(|value| value == *first)) {
            self.env.push(value.clone());
            return;
        }
        for (index, value) in each {
            let Some(plugin) = plugins.get_mut(*index) else { continue };
            let renamed = format!("{}_{name}", upper(&plugin.name));
            let mut value = value.clone();
            set(&mut value, &["name"], json!(renamed));
            self.env.push(value);
            plugin.edit.exports.insert(name.clone(), format!("${renamed}"));
            report.change(format!(
                "plugin `{}`: {name} has other values in other sidecars: the container has it as \
                 {renamed}, and sh sets it before the plugin's commands",
                plugin.name
            ));
        }
    }

    /// Hides secrets in variables from plugins that did not have them.
    fn hide(&self, plugins: &mut [Plugin], config_maps: &ConfigMaps, report: &mut Report) {
        let secrets: BTreeSet<_> =
            self.env.iter().filter(|v| is_secret(v)).map(|v| text(v, "name")).collect();
        let has_source =
            |plugin: &Plugin, source: &Value| plugin.sidecar.variable_sources().contains(source);
        let sources: Vec<_> =
            self.env_from.iter().filter(|s| s.get("secretRef").is_some()).collect();
        for plugin in plugins {
            let names = names(plugin, config_maps);
            let is_foreign = secrets.iter().any(|name| !names.known.contains(*name))
                || sources.iter().any(|source| !has_source(plugin, source));
            if !is_foreign {
                continue;
            }
            if names.unknown.is_empty() {
                report.change(format!(
                    "plugin `{}`: spec.sandbox.env hides the secrets of other plugins: add \
                     variables that its image sets and its commands need",
                    plugin.name
                ));
                plugin.edit.variables = Some(names.known);
            } else {
                report.check(format!(
                    "plugin `{}` can see secrets of other plugins in variables: list the keys of \
                     {} in spec.sandbox.env",
                    plugin.name,
                    names.unknown.join(", ")
                ));
            }
        }
    }
}

/// Every variable that is kept, in the order of the first sidecar that has it.
fn collect(plugins: &[Plugin], report: &mut Report) -> Vec<Shared> {
    let mut found: Vec<Shared> = Vec::new();
    for (index, plugin) in plugins.iter().enumerate() {
        for variable in plugin.sidecar.variables() {
            let name = text(variable, "name");
            if plugin.edit.caches.values().any(|cache| cache == name) || FLAGS.contains(&name) {
                continue;
            }
            if is_own(name) || is_temporary(variable) {
                report.change(format!(
                    "plugin `{}`: {name} was removed, because the sandbox sets it",
                    plugin.name
                ));
                continue;
            }
            let mut variable = variable.clone();
            if let Some(value) = variable.get("value").and_then(Value::as_str) {
                let moved = plugin.edit.relocate(value);
                set(&mut variable, &["value"], json!(moved));
            }
            match found.iter_mut().find(|shared| shared.name == name) {
                Some(shared) => drop(shared.values.insert(index, variable)),
                None => {
                    found
                        .push(Shared { name: name.to_owned(), values: [(index, variable)].into() });
                }
            }
        }
    }
    found
}

/// Names of a plugin's variables in the new container.
struct Names {
    known: BTreeSet<String>,
    /// Sources whose keys are not in the input.
    unknown: Vec<String>,
}

fn names(plugin: &Plugin, config_maps: &ConfigMaps) -> Names {
    let kept = plugin.sidecar.variables().iter().filter(|variable| !is_temporary(variable));
    let own = kept.map(|variable| text(variable, "name"));
    let Edit { exports, caches, .. } = &plugin.edit;
    let is_set_elsewhere =
        |name: &str| exports.contains_key(name) || caches.values().any(|cache| cache == name);
    let kept = own.filter(|name| !is_set_elsewhere(name) && !is_own(name));
    let mut known: BTreeSet<_> = kept.map(str::to_owned).collect();
    let renamed = exports.values().filter_map(|value| value.strip_prefix('$'));
    known.extend(renamed.map(str::to_owned));
    let mut unknown = Vec::new();
    for source in plugin.sidecar.variable_sources() {
        let prefix = text(source, "prefix");
        let named = |key| source.get(key).map(|reference| text(reference, "name"));
        match named("configMapRef").and_then(|name| config_maps.keys(name)) {
            Some(keys) => known.extend(keys.map(|key| format!("{prefix}{key}"))),
            None if !prefix.is_empty() => drop(known.insert(format!("{prefix}*"))),
            None => {
                let secret = named("secretRef").map(|name| format!("Secret {name}"));
                let map = || named("configMapRef").map(|name| format!("ConfigMap {name}"));
                unknown.extend(secret.or_else(map));
            }
        }
    }
    Names { known, unknown }
}

fn is_secret(variable: &Value) -> bool {
    variable.pointer("/valueFrom/secretKeyRef").is_some()
}

/// A plugin's name as the beginning of a variable's.
fn upper(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
