//! Variables of some sidecars that other plugins get now.

use serde_json::Value;

use super::{
    field::text,
    own::{is_replaced, is_setting},
    plugin::Plugin,
    report::Report,
    variable::is_secret,
};

/// Names the variables and `ConfigMap`s of each plugin that others get now. Other lines of the
/// report tell of secrets, settings of the server and resources, and a path that each request has
/// for itself changes nothing.
pub(super) fn warn(env: &[Value], plugins: &[Plugin], report: &mut Report) {
    let is_told = |variable: &&Value| {
        let name = text(variable, "name");
        is_setting(name)
            || is_replaced(name)
            || is_secret(variable)
            || variable.pointer("/valueFrom/resourceFieldRef").is_some()
    };
    let mut found = Vec::<(Vec<&str>, Vec<String>)>::new();
    let mut add = |shown: String, has: &dyn Fn(&Plugin) -> bool| {
        let had = plugins.iter().filter(|plugin| has(plugin));
        let had: Vec<_> = had.map(|plugin| plugin.name.as_str()).collect();
        let sees = |other: &Plugin| !has(other) && other.edit.variables.is_none();
        if had.is_empty() || !plugins.iter().any(sees) {
            return;
        }
        match found.iter_mut().find(|(owners, _)| *owners == had) {
            Some((_, all)) if all.contains(&shown) => {}
            Some((_, all)) => all.push(shown),
            None => found.push((had, vec![shown])),
        }
    };
    for name in env.iter().filter(|v| !is_told(v)).map(|v| text(v, "name")) {
        add(name.to_owned(), &|plugin| plugin.sidecar.has(name));
    }
    for source in plugins.iter().flat_map(|plugin| plugin.sidecar.variable_sources()) {
        if let Some(map) = source.get("configMapRef") {
            let has = |plugin: &Plugin| plugin.sidecar.variable_sources().contains(source);
            add(format!("all of ConfigMap {}", text(map, "name")), &has);
        }
    }
    for (had, names) in found {
        let (plugins, its) = match had.as_slice() {
            [_] => ("plugin", "its sidecar"),
            _ => ("plugins", "their sidecars"),
        };
        let (had, names) = (format!("`{}`", had.join("`, `")), names.join(", "));
        report.check(format!(
            "{plugins} {had}: other plugins get these variables of {its} now: {names}: if one \
             changes what other plugins render, set it in the commands of {had} instead"
        ));
    }
}
