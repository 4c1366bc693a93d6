//! The result: manifests, or values of the chart.

use serde_json::{Value, json};

use super::{
    config_map,
    definition::Definition,
    extra_objects::ExtraObjects,
    field::{set, unused},
    host::Host,
    lists::Lists,
};
use crate::{plugin::folds_to, yaml};

/// Parts of the result.
#[derive(Debug)]
pub(super) struct Parts<'i> {
    pub(super) lists: Lists,
    pub(super) extra_objects: ExtraObjects<'i>,
    /// Name of the ConfigMap with all definitions.
    pub(super) config_map: &'i str,
}

/// The ConfigMap and the document, or the values with both.
pub(super) fn write(host: &Host, definitions: &[Definition<'_>], parts: Parts<'_>) -> String {
    let Parts { lists, extra_objects, config_map } = parts;
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map},
        "data": {},
    });
    if !host.namespace().is_empty() {
        set(&mut object, &["metadata", "namespace"], json!(host.namespace()));
    }
    for Definition { plugin, text } in definitions {
        let file = |name: &str| format!("{name}.yaml");
        let is_taken = |name: &str| object["data"].get(file(name)).is_some();
        let key = &file(&unused(&key(&plugin.name), is_taken));
        let engines = if plugin.is_template { 0 } else { host.template_engines() };
        let text = (0..engines).fold(text.clone(), |text, _| escaped(&text));
        set(&mut object, &["data", key], json!(text));
    }
    let Some(values) = host.values() else {
        let document = host.with(lists, Vec::new());
        return format!("{}---\n{}", yaml::write(&object), yaml::write(&document));
    };
    let objects: Vec<_> = extra_objects.kept.into_iter().cloned().chain([object]).collect();
    let mut changes = vec![(vec!["extraObjects"], Value::Array(objects))];
    changes.extend(plugins_of_chart(values, definitions));
    yaml::write(&host.with(lists, changes))
}

/// A name in the letters of a ConfigMap's keys.
fn key(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(letter).collect()
}

/// Takes the plugins out of `configs.cmp`: the chart restarts the repo-server when they change.
fn plugins_of_chart<'v>(
    values: &'v Value,
    migrated: &[Definition<'_>],
) -> Vec<(Vec<&'v str>, Value)> {
    let Some(plugins) = config_map::plugins(values) else { return Vec::new() };
    let is_migrated = |(name, spec): &(&String, &Value)| {
        // Argo CD reads keys in any case: the last one with a value wins.
        let members = spec.as_object().into_iter().flatten();
        let versions = members.filter(|(key, _)| folds_to(key, "version"));
        let version = versions.filter_map(|(_, version)| version.as_str()).next_back();
        let full = match version.unwrap_or_default() {
            "" => (*name).clone(),
            version => format!("{name}-{version}"),
        };
        migrated.iter().any(|definition| definition.plugin.name == full)
    };
    let removed = plugins.iter().filter(is_migrated);
    let removed = removed.map(|(name, _)| (vec!["configs", "cmp", "plugins", name], Value::Null));
    let mut changes: Vec<_> = removed.collect();
    if changes.len() == plugins.len() {
        changes.push((vec!["configs", "cmp", "create"], json!(false)));
    }
    changes
}

/// A text that an engine for Go templates, such as Helm's `tpl`, leaves as it is. The chart writes some texts between double quotes
/// before, and a double quote in the braces would become `\"`, which is no template.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{`{{`}}")
}
