//! Metrics of each plugin's definition and socket.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Dimension, DiscoveryKind, Family, Kind, Metrics, family, page::block};

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

/// The state and the definition of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRecord {
    /// True if its socket answers and its programs exist.
    pub is_up: bool,
    /// The name of its file.
    pub file: String,
    /// The way in which it recognises applications.
    pub discovery: DiscoveryKind,
    /// First digits of its digest.
    pub hash: String,
}

/// The plugins that are defined. They are not in the recorder, which cannot forget the labels
/// of an earlier definition, and shows series of removed plugins for some minutes: a removed
/// plugin is neither up nor down. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct DefinedPlugins(Arc<Mutex<BTreeMap<String, PluginRecord>>>);

impl DefinedPlugins {
    pub(super) fn page(&self) -> String {
        let records = self.records();
        let ups =
            records.iter().map(|(plugin, record)| (vec![plugin.as_str()], u8::from(record.is_up)));
        let infos = records.iter().map(|(plugin, PluginRecord { file, discovery, hash, .. })| {
            (vec![plugin.as_str(), file, discovery.as_str(), hash], 1)
        });
        block(&PLUGIN_UP, ups) + &block(&PLUGIN_INFO, infos)
    }

    pub(super) fn forget(&self, plugin: &str) {
        self.records().remove(plugin);
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, PluginRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    /// Sets the state and the definition of a plugin.
    pub fn plugin_defined(&self, plugin: &str, record: PluginRecord) {
        self.defined.records().insert(plugin.to_owned(), record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_one_definition_and_is_up_until_it_is_gone() {
        let metrics = Metrics::new();
        let record = |hash: &str| PluginRecord {
            is_up: true,
            file: "a \"b\".yaml".to_owned(),
            discovery: DiscoveryKind::Glob,
            hash: hash.to_owned(),
        };
        metrics.plugin_defined("p", record("aa"));
        metrics.plugin_defined("p", record("bb"));
        drop(metrics.plugin("p"));
        let page = metrics.render();
        let line = r#"argocd_cmp_plugin_info{plugin="p",file="a \"b\".yaml",discovery="glob",hash="bb"} 1"#;
        assert!(page.contains(line) && !page.contains("\"aa\""), "{page}");
        assert!(page.contains("argocd_cmp_plugin_up{plugin=\"p\"} 1\n"), "{page}");
        metrics.plugin_gone("p");
        let page = metrics.render();
        for name in ["argocd_cmp_plugin_info{", "argocd_cmp_plugin_up{"] {
            assert!(!page.contains(name), "{page}");
        }
        assert!(page.contains("argocd_cmp_requests_waiting{plugin=\"p\"} 0\n"), "{page}");
    }
}
