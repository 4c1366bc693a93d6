//! Metrics of the state.

use std::collections::BTreeSet;

use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::State;
use crate::metrics::{Metrics, PluginState};

/// Updates the metrics of plugins and readiness until `stop`.
pub async fn measure(mut states: Receiver<State>, metrics: Metrics, stop: CancellationToken) {
    let mut known = BTreeSet::new();
    loop {
        let state = states.borrow_and_update().clone();
        known = set(&metrics, &state, &known);
        tokio::select! {
            () = stop.cancelled() => return,
            changed = states.changed() => if changed.is_err() { return },
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
