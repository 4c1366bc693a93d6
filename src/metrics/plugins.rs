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

/// The state and the definition of a plugin that is defined.
#[derive(Debug, Default)]
struct Known {
    up: Option<bool>,
    info: Option<PluginInfo>,
}

/// The plugins that are defined. They are not in the recorder, which cannot forget the labels
/// of an earlier definition, and shows series of removed plugins for some minutes: a removed
/// plugin is neither up nor down. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Defined(Arc<Mutex<BTreeMap<String, Known>>>);

impl Defined {
    pub(super) fn page(&self) -> String {
        let known = self.known();
        let ups = known
            .iter()
            .filter_map(|(plugin, known)| Some((vec![plugin.as_str()], u8::from(known.up?))));
        let infos = known.iter().filter_map(|(plugin, known)| {
            let PluginInfo { file, discovery, hash } = known.info.as_ref()?;
            Some((vec![plugin.as_str(), file, discovery.as_str(), hash], 1))
        });
        block(&PLUGIN_UP, ups) + &block(&PLUGIN_INFO, infos)
    }

    pub(super) fn forget(&self, plugin: &str) {
        self.known().remove(plugin);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    /// Sets whether the plugin's socket answers and its programs exist.
    pub fn plugin_up(&self, plugin: &str, up: bool) {
        self.defined.known().entry(plugin.to_owned()).or_default().up = Some(up);
    }

    /// Sets the definition of a plugin.
    pub fn plugin_info(&self, plugin: &str, info: PluginInfo) {
        self.defined.known().entry(plugin.to_owned()).or_default().info = Some(info);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_one_definition_and_is_up_until_it_is_gone() {
        let metrics = Metrics::new();
        let info = |hash: &str| PluginInfo {
            file: "a \"b\".yaml".to_owned(),
            discovery: DiscoveryKind::Glob,
            hash: hash.to_owned(),
        };
        metrics.plugin_info("p", info("aa"));
        metrics.plugin_info("p", info("bb"));
        metrics.plugin_up("p", true);
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
