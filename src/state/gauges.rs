//! Metrics of the state.

use std::collections::BTreeSet;

use tokio::sync::watch::Receiver;

use super::State;
use crate::metrics::{Metrics, PluginState};

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
