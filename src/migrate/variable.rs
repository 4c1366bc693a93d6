//! The variables of all sidecars, in one container.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    config_map::ConfigMaps,
    edit::Edit,
    env_from,
    field::{remove, set, text, unused},
    own::{
        PATH, is_flag, is_gone, is_hidden, is_replaced, is_setting, report_removal, warn_of_gone,
        warn_of_temporary,
    },
    plugin::Plugin,
    reference::{self, refers},
    report::Report,
};

/// Variables of every container by which programs find the API server.
const API_SERVER: [&str; 3] =
    ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS"];

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

/// Variables of which each plugin has its own.
struct Own<'f> {
    differing: Vec<&'f Shared>,
    /// The beginning of each plugin's new names, by the plugin's position.
    prefixes: Vec<String>,
}

impl Variables {
    /// Merges the variables. Values that differ get a name for each plugin.
    pub(super) fn merge(
        plugins: &mut [Plugin],
        config_maps: &ConfigMaps,
        report: &mut Report,
    ) -> Self {
        let mut merged = Self::default();
        let found = in_order(collect(plugins, report));
        let differing = differing(&found, plugins.len());
        let prefixes = prefixes(plugins, &found, &differing);
        let own = Own { differing, prefixes };
        for shared in &found {
            if is_setting(&shared.name) {
                merged.set(shared, plugins, report);
            } else if own.differing.iter().any(|other| other.name == shared.name) {
                merged.env.extend(shared.renamed(&own, plugins, report));
            } else {
                let first = shared.values.iter().next();
                merged.env.extend(first.map(|(index, value)| own.follow(*index, value)));
            }
        }
        for source in plugins.iter().flat_map(|plugin| plugin.sidecar.variable_sources()) {
            if !merged.env_from.contains(source) {
                merged.env_from.push(source.clone());
            }
        }
        for plugin in plugins.iter() {
            env_from::warn_of_clashes(plugin, plugins, config_maps, report);
        }
        merged.hide(plugins, config_maps, report);
        merged
    }

    /// True if the new container has a variable, or may have it from a source of the plugin.
    pub(super) fn may_have(&self, name: &str, plugin: &Plugin) -> bool {
        let has_it = self.env.iter().any(|variable| text(variable, "name") == name);
        has_it || !plugin.sidecar.has(name) && !plugin.sidecar.variable_sources().is_empty()
    }

    /// A setting of the server, which has one value for all plugins.
    fn set(&mut self, shared: &Shared, plugins: &[Plugin], report: &mut Report) {
        self.env.extend(shared.values.values().next().cloned());
        if shared.differs() || shared.values.len() < plugins.len() {
            let each = plugins.iter().enumerate().map(|(index, plugin)| {
                let value = shown(&shared.name, shared.values.get(&index));
                format!("{value} in `{}`", plugin.name)
            });
            report.check(format!(
                "{}: one value counts for all plugins, and the first one was taken: {}",
                shared.name,
                each.collect::<Vec<_>>().join(", ")
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
            let mut names = names(plugin, config_maps);
            let is_foreign = secrets.iter().any(|name| !names.known.contains(*name))
                || sources.iter().any(|source| !has_source(plugin, source));
            if !is_foreign {
                continue;
            }
            if names.unknown.is_empty() {
                report.check(format!(
                    "plugin `{}`: spec.sandbox.env hides the secrets of other plugins, and every \
                     other variable that it does not name, also those that the image sets, such \
                     as SSL_CERT_FILE: add those that its commands need",
                    plugin.name
                ));
                names.known.extend(API_SERVER.map(str::to_owned));
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

impl Own<'_> {
    /// A plugin's variable that refers to others by their new names.
    fn follow(&self, index: usize, variable: &Value) -> Value {
        let mut variable = variable.clone();
        let Some(prefix) = self.prefixes.get(index) else { return variable };
        for other in self.differing.iter().filter(|other| other.values.contains_key(&index)) {
            let new = format!("{prefix}_{}", other.name);
            let new = reference::renamed(text(&variable, "value"), &other.name, &new);
            if !new.is_empty() {
                set(&mut variable, &["value"], json!(new));
            }
        }
        variable
    }
}

impl Shared {
    fn differs(&self) -> bool {
        let mut values = self.values.values();
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// Gives each plugin a variable of its own, and returns these.
    fn renamed(&self, own: &Own<'_>, plugins: &mut [Plugin], report: &mut Report) -> Vec<Value> {
        let (Self { name, values: each }, reason) = (self, self.reason(own));
        let mut variables = Vec::new();
        for (index, value) in each {
            let (Some(plugin), Some(prefix)) = (plugins.get_mut(*index), own.prefixes.get(*index))
            else {
                continue;
            };
            let renamed = format!("{prefix}_{name}");
            let mut value = own.follow(*index, value);
            set(&mut value, &["name"], json!(renamed));
            variables.push(value);
            plugin.edit.renamed.insert(name.clone(), renamed.clone());
            if !is_shell_name(name) {
                report.check(format!(
                    "plugin `{}`: {name} {reason}: the container has it as {renamed}, and sh cannot \
                     set a variable of this name: give it to the commands in another way",
                    plugin.name
                ));
                continue;
            }
            plugin.edit.export(name, &format!("${renamed}"));
            report.change(format!(
                "plugin `{}`: {name} {reason}: the container has it as \
                 {renamed}, and sh sets it before the plugin's commands",
                plugin.name
            ));
        }
        variables
    }

    /// Why plugins need variables of their own.
    fn reason(&self, own: &Own<'_>) -> String {
        let mut others = own.differing.iter().filter(|other| other.name != self.name);
        match others.find(|other| self.refers_to(&other.name)) {
            _ if self.differs() => "has other values in other sidecars".to_owned(),
            Some(other) => format!("refers to {}, which has a new name", other.name),
            None if self.values.len() == 1 => "is in no other sidecar".to_owned(),
            None => "is not in all sidecars".to_owned(),
        }
    }

    fn refers_to(&self, name: &str) -> bool {
        self.values.values().any(|value| refers(text(value, "value"), name))
    }
}

/// The value of a setting, for the report.
fn shown<'v>(name: &str, variable: Option<&'v Value>) -> &'v str {
    match variable.map(|variable| text(variable, "value")) {
        None => "none",
        Some("") => "one from elsewhere",
        Some(_) if is_hidden(name) => "a hidden one",
        Some(value) => value,
    }
}

/// Kubernetes replaces references to earlier variables only, so these come first.
fn in_order(mut rest: Vec<Shared>) -> Vec<Shared> {
    let mut sorted = Vec::new();
    while !rest.is_empty() {
        let is_free = |shared: &Shared| {
            let mut others = rest.iter().filter(|other| other.name != shared.name);
            !others.any(|other| shared.refers_to(&other.name))
        };
        // Those that refer to each other keep their order.
        let next = rest.iter().position(is_free).unwrap_or_default();
        sorted.push(rest.remove(next));
    }
    sorted
}

/// Variables with several values, and those that refer to them. A PATH of one sidecar would
/// hide programs of the image from the other plugins.
fn differing(found: &[Shared], plugins: usize) -> Vec<&Shared> {
    let found: Vec<_> = found.iter().filter(|shared| !is_replaced(&shared.name)).collect();
    let is_some_path = |shared: &Shared| shared.name == PATH && shared.values.len() < plugins;
    let differs = |shared: &&&Shared| shared.differs() || is_some_path(shared);
    let mut names: BTreeSet<_> = found.iter().filter(differs).map(|s| s.name.as_str()).collect();
    loop {
        let refers = |shared: &&&Shared| names.iter().any(|name| shared.refers_to(name));
        let more: BTreeSet<_> = found.iter().filter(refers).map(|s| s.name.as_str()).collect();
        if more.is_subset(&names) {
            return found.into_iter().filter(|s| names.contains(s.name.as_str())).collect();
        }
        names.extend(more);
    }
}

/// The beginning of each plugin's own names, so that no two variables have one name.
fn prefixes(plugins: &[Plugin], found: &[Shared], differing: &[&Shared]) -> Vec<String> {
    let mut taken: BTreeSet<_> = found.iter().map(|shared| shared.name.clone()).collect();
    let each = plugins.iter().enumerate().map(|(index, plugin)| {
        let names = |plugin: &str| {
            let prefix = upper(plugin);
            let had = differing.iter().filter(|shared| shared.values.contains_key(&index));
            had.map(|shared| format!("{prefix}_{}", shared.name)).collect::<Vec<_>>()
        };
        let name = unused(&plugin.name, |name| names(name).iter().any(|new| taken.contains(new)));
        taken.extend(names(&name));
        upper(&name)
    });
    each.collect()
}

/// Every variable that is kept, in the order of the first sidecar that has it.
fn collect(plugins: &[Plugin], report: &mut Report) -> Vec<Shared> {
    let mut found: Vec<Shared> = Vec::new();
    for (index, plugin) in plugins.iter().enumerate() {
        let mut gone = Vec::new();
        for variable in plugin.sidecar.variables() {
            let name = text(variable, "name");
            if plugin.edit.caches.values().any(|cache| cache == name) || is_flag(name) {
                gone.push(name);
                continue;
            }
            let mut variable = moved(variable, plugin);
            if is_gone(&variable) {
                report_removal(plugin, name, report);
                gone.push(name);
                continue;
            }
            if is_replaced(name) {
                gone.push(name);
            } else {
                warn_of_gone(plugin, &variable, &gone, report);
            }
            if variable.pointer("/valueFrom/resourceFieldRef").is_some() {
                remove(&mut variable, &["valueFrom", "resourceFieldRef", "containerName"]);
                report.check(format!(
                    "plugin `{}`: {name} (resourceFieldRef) is that of the new container now, for \
                     all plugins together",
                    plugin.name
                ));
            }
            warn_of_temporary(plugin, &variable, report);
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

/// A plugin's variable with the paths at which the new container has its files.
fn moved(variable: &Value, plugin: &Plugin) -> Value {
    let mut variable = variable.clone();
    if let Some(value) = variable.get("value").and_then(Value::as_str) {
        let own = plugin.edit.path.as_deref().filter(|_| text(&variable, "name") == PATH);
        let value = plugin.edit.relocate(own.unwrap_or(value));
        set(&mut variable, &["value"], json!(value));
    }
    variable
}

/// Names of a plugin's variables in the new container.
struct Names {
    known: BTreeSet<String>,
    /// Sources whose keys are not in the input.
    unknown: Vec<String>,
}

fn names(plugin: &Plugin, config_maps: &ConfigMaps) -> Names {
    let kept = plugin.sidecar.variables().iter().filter(|v| !is_gone(&moved(v, plugin)));
    let own = kept.map(|variable| text(variable, "name"));
    let Edit { renamed, caches, .. } = &plugin.edit;
    let is_set_elsewhere =
        |name: &str| renamed.contains_key(name) || caches.values().any(|cache| cache == name);
    let kept = own.filter(|name| !is_set_elsewhere(name));
    let mut known: BTreeSet<_> = kept.map(str::to_owned).collect();
    known.extend(renamed.values().cloned());
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

pub(super) fn is_secret(variable: &Value) -> bool {
    let is_stated = variable.get("value").is_some();
    variable.pointer("/valueFrom/secretKeyRef").is_some()
        || is_stated && cmp_sandbox::suggests_credential(text(variable, "name"))
}

/// True if a shell accepts the name of a variable. Kubernetes also accepts `-` and `.`.
fn is_shell_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A plugin's name as the beginning of a variable's.
fn upper(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
