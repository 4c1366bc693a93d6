//! The variables of all sidecars, in one container.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    config_map::ConfigMaps,
    edit::Edit,
    env_from,
    field::text,
    own::is_gone,
    plugin::Plugin,
    report::Report,
    shared::{Own, collect, differing, in_order, moved, prefixes},
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
            if shared.has_one_value() || !own.has(&shared.name) {
                merged.env.extend(own.first(shared));
                shared.warn_of_one_value(&own, plugins, report);
            } else {
                merged.env.extend(shared.renamed(&own, plugins, report));
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
