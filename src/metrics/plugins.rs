//! Metrics of each plugin's definition and socket.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use metrics::Label;

use super::{Dimension, DiscoveryKind, Family, Kind, Metrics, family, page::escaped};

pub(super) static PLUGIN_UP: Family = family(
    ("argocd_cmp_plugin_up", Kind::Gauge),
    &[Dimension::Plugin],
    "1 if the plugin's socket answers and the first program of each command can run.",
);
pub(super) static PLUGIN_INFO: Family = family(
    ("argocd_cmp_plugin_info", Kind::Gauge),
    &[Dimension::Plugin, Dimension::File, Dimension::Discovery, Dimension::Hash],
    "Definition of each plugin; always 1.",
);

/// The definition of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// The name of its file.
    pub file: String,
    /// The way in which it recognises applications.
    pub discovery: DiscoveryKind,
    /// First digits of its digest.
    pub hash: String,
}

/// The definitions of plugins. They are not in the recorder, which cannot forget the
/// labels of an earlier definition. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Infos(Arc<Mutex<BTreeMap<String, PluginInfo>>>);

impl Infos {
    pub(super) fn page(&self) -> String {
        let infos = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, about) = (PLUGIN_INFO.name, PLUGIN_INFO.about);
        let mut page = format!("# HELP {name} {about}\n# TYPE {name} gauge\n");
        for (plugin, PluginInfo { file, discovery, hash }) in infos.iter() {
            let values = [plugin, file, discovery.as_str(), hash];
            let labels = PLUGIN_INFO.labels.iter().zip(values);
            let labels = labels.map(|(l, value)| format!("{}=\"{}\"", l.name(), escaped(value)));
            // Writing to a String cannot fail.
            let _ = writeln!(page, "{name}{{{}}} 1", labels.collect::<Vec<_>>().join(","));
        }
        page
    }

    pub(super) fn forget(&self, plugin: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(plugin);
    }
}

impl Metrics {
    /// Sets whether the plugin's socket answers and its programs exist.
    pub fn plugin_up(&self, plugin: &str, up: bool) {
        self.of(plugin).flag(&PLUGIN_UP, &[Label::new("plugin", plugin.to_owned())], up);
    }

    /// Sets the definition of a plugin.
    pub fn plugin_info(&self, plugin: &str, info: PluginInfo) {
        let mut infos = self.infos.0.lock().unwrap_or_else(PoisonError::into_inner);
        infos.insert(plugin.to_owned(), info);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_one_definition_until_it_is_gone() {
        let metrics = Metrics::new();
        let info = |hash: &str| PluginInfo {
            file: "a \"b\".yaml".to_owned(),
            discovery: DiscoveryKind::Glob,
            hash: hash.to_owned(),
        };
        metrics.plugin_info("p", info("aa"));
        metrics.plugin_info("p", info("bb"));
        let page = metrics.render();
        let line = r#"argocd_cmp_plugin_info{plugin="p",file="a \"b\".yaml",discovery="glob",hash="bb"} 1"#;
        assert!(page.contains(line) && !page.contains("\"aa\""), "{page}");
        metrics.plugin_gone("p");
        assert!(!metrics.render().contains("argocd_cmp_plugin_info{"));
    }
}
