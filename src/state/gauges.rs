//! Metrics of the state.

use std::collections::BTreeSet;

use tokio::sync::watch::Receiver;

use super::State;
use crate::{
    metrics::{DiscoveryKind, Metrics, PluginRecord, PluginState},
    plugin::Discovery,
};

/// Updates the metrics of plugins and readiness until the runtime ends, because
/// sockets are removed while the supervisor stops.
pub async fn measure(mut states: Receiver<State>, metrics: Metrics) {
    loop {
        // Before the state: a plugin gets its series after its definition is in the state.
        let shown = metrics.plugin_names();
        let state = states.borrow_and_update().clone();
        set(&metrics, &state, &shown);
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Sets all metrics, and removes those of the plugins among `shown` that are gone. The
/// metrics tell which those are: a socket that was being created when its definition was
/// removed gives the plugin series afterwards.
fn set(metrics: &Metrics, state: &State, shown: &BTreeSet<String>) {
    let plugins = state.plugins();
    let mut names = BTreeSet::new();
    // The plugins that should be served come first, in this order.
    for (definition, plugin) in state.desired.iter().zip(&plugins) {
        let name = definition.name.as_str();
        metrics.plugin_state(name, Some(plugin.state));
        if let Some(origin) = state.origins.get(&definition.name) {
            let record = PluginRecord {
                is_up: plugin.state.is_up(),
                file: origin.file.clone(),
                discovery: kind(definition.discovery.as_ref()),
                hash: origin.digest.short(),
            };
            metrics.plugin_defined(name, record);
        }
        names.insert(name.to_owned());
    }
    for gone in shown.difference(&names) {
        metrics.plugin_gone(gone);
    }
    for each in PluginState::ALL {
        metrics.plugins(*each, plugins.iter().filter(|plugin| plugin.state == *each).count());
    }
    metrics.ready(state.is_ready());
}

fn kind(discovery: Option<&Discovery>) -> DiscoveryKind {
    match discovery {
        None => DiscoveryKind::None,
        Some(Discovery::FileName(_)) => DiscoveryKind::FileName,
        Some(Discovery::Glob(_)) => DiscoveryKind::Glob,
        Some(Discovery::Command(_)) => DiscoveryKind::Command,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::plugin::catalog_of as catalog;

    /// Lets the task of the metrics run until it waits.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_created_after_its_definition_was_removed_leaves_no_series() {
        let metrics = Metrics::new();
        let defined = |names| State { desired: catalog(names), ..State::default() };
        let (states, receiver) = watch::channel(defined(&["gone", "here"]));
        let changes = async {
            settle().await;
            states.send_replace(defined(&["here"]));
            settle().await;
            let late = metrics.plugin("gone");
            states.send_modify(|state| state.served = catalog(&["gone", "here"]));
            settle().await;
            drop((states, late));
        };
        tokio::join!(measure(receiver, metrics.clone()), changes);
        assert_eq!(metrics.plugin_names().into_iter().collect::<Vec<_>>(), ["here"]);
    }
}
