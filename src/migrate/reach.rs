//! Variables of one sidecar that all plugins get now.

use serde_json::Value;

use super::{
    field::text,
    plugin::Plugin,
    report::Report,
    variable::{SETTINGS, is_secret},
};

/// Names the variables and `ConfigMap`s of each plugin that others get now. Other lines of the
/// report tell of secrets, settings of the server and resources.
pub(super) fn warn(env: &[Value], plugins: &[Plugin], report: &mut Report) {
    let is_told = |variable: &&Value| {
        SETTINGS.contains(&text(variable, "name"))
            || is_secret(variable)
            || variable.pointer("/valueFrom/resourceFieldRef").is_some()
    };
    for (index, plugin) in plugins.iter().enumerate() {
        let earlier = plugins.get(..index).unwrap_or_default();
        let is_new = |has: &dyn Fn(&Plugin) -> bool| {
            let sees = |other: &Plugin| !has(other) && other.edit.variables.is_none();
            has(plugin) && !earlier.iter().any(has) && plugins.iter().any(sees)
        };
        let variables = env.iter().filter(|variable| !is_told(variable));
        let names = variables.map(|variable| text(variable, "name"));
        let names = names.filter(|name| is_new(&|other| has(other, name))).map(str::to_owned);
        let sources = plugin.sidecar.variable_sources().iter();
        let sources = sources
            .filter(|source| is_new(&|other| other.sidecar.variable_sources().contains(source)));
        let maps = sources.filter_map(|source| source.get("configMapRef"));
        let maps = maps.map(|map| format!("all of ConfigMap {}", text(map, "name")));
        let found: Vec<_> = names.chain(maps).collect();
        if !found.is_empty() {
            let (name, found) = (&plugin.name, found.join(", "));
            report.check(format!(
                "plugin `{name}`: all plugins get these variables of its sidecar now: {found}: if \
                 one changes what other plugins render, set it in the commands of `{name}` instead"
            ));
        }
    }
}

fn has(plugin: &Plugin, name: &str) -> bool {
    plugin.sidecar.variables().iter().any(|variable| text(variable, "name") == name)
}
