//! Metrics of the state.

use std::collections::BTreeSet;

use tokio::sync::watch::Receiver;

use super::State;
use crate::{
    metrics::{DiscoveryKind, Metrics, PluginInfo, PluginState},
    plugin::Discovery,
};

/// Updates the metrics of plugins and readiness until the runtime ends, because
/// sockets are removed while the supervisor stops.
pub async fn measure(mut states: Receiver<State>, metrics: Metrics) {
    let mut known = BTreeSet::new();
    loop {
        let state = states.borrow_and_update().clone();
        known = set(&metrics, &state, &known);
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Sets all metrics and returns the names of the plugins.
fn set(metrics: &Metrics, state: &State, known: &BTreeSet<String>) -> BTreeSet<String> {
    let plugins = state.plugins();
    for definition in state.desired.iter() {
        if let Some(origin) = state.origins.get(&definition.name) {
            let (file, hash) = (origin.file.clone(), origin.digest.short());
            let discovery = kind(definition.discovery.as_ref());
            let info = PluginInfo { file, discovery, hash };
            metrics.plugin_info(definition.name.as_str(), info);
        }
    }
    let mut names = BTreeSet::new();
    for plugin in &plugins {
        if let Some(name) = &plugin.name {
            metrics.plugin_state(name, Some(plugin.state));
            metrics.plugin_up(name, plugin.state.is_up());
            names.insert(name.clone());
        }
    }
    for gone in known.difference(&names) {
        metrics.plugin_gone(gone);
    }
    for each in PluginState::ALL {
        metrics.plugins(each, plugins.iter().filter(|plugin| plugin.state == each).count());
    }
    metrics.ready(state.is_ready());
    names
}

fn kind(discovery: Option<&Discovery>) -> DiscoveryKind {
    match discovery {
        None => DiscoveryKind::None,
        Some(Discovery::FileName(_)) => DiscoveryKind::FileName,
        Some(Discovery::Glob(_)) => DiscoveryKind::Glob,
        Some(Discovery::Command(_)) => DiscoveryKind::Command,
    }
}
