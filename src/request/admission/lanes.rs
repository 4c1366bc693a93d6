//! Lanes of plugins that say how many requests they can take.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Lane, NoPlace, Place, Rule};
use crate::{
    plugin::{PluginDefinition, PluginName},
    request::Deadline,
};

/// A lane for each plugin that wants one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lanes {
    lanes: Arc<Mutex<HashMap<PluginName, Lane>>>,
    max_waiting: usize,
}

impl Lanes {
    /// Lanes in each of which `max_waiting` requests may wait.
    #[must_use]
    pub fn new(max_waiting: usize) -> Self {
        Self { lanes: Arc::default(), max_waiting }
    }

    /// Waits for a place in the plugin's own lane, if it has one.
    pub async fn enter(
        &self,
        plugin: &PluginDefinition,
        deadline: &Deadline,
    ) -> Result<Option<Place>, NoPlace> {
        match plugin.limits.requests {
            Some(limit) => self.lane(&plugin.name, limit as usize).enter(deadline).await.map(Some),
            None => Ok(None),
        }
    }

    /// The lane of a plugin. One with another limit begins anew: whoever is in
    /// the old one stays there until it is done.
    fn lane(&self, plugin: &PluginName, limit: usize) -> Lane {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(plugin).filter(|lane| lane.rule.limit == limit) {
            return lane.clone();
        }
        // Plugins come and go; what nobody uses needs no memory.
        lanes.retain(|_, lane| !lane.is_idle());
        let max_waiting = self.max_waiting;
        let lane = Lane::of(Rule { limit, max_waiting, plugin: Some(plugin.clone()) });
        lanes.insert(plugin.clone(), lane.clone());
        lane
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plugin;

    fn plugin(name: &str, limits: &str) -> PluginDefinition {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec: {{generate: \
             {{command: [x]}}, limits: {limits}}}"
        );
        plugin::read(text.as_bytes()).unwrap()
    }

    fn deadline() -> Deadline {
        Deadline::new(Some(Duration::from_secs(1)), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugins_requests_wait_for_each_other_and_for_nobody_elses() {
        let lanes = Lanes::new(1);
        let (one, other) = (plugin("one", "{requests: 1}"), plugin("other", "{requests: 1}"));
        let _first = lanes.enter(&one, &deadline()).await.unwrap();
        let _second = lanes.enter(&other, &deadline()).await.unwrap();
        let error = lanes.enter(&one, &deadline()).await.unwrap_err().to_string();
        assert!(error.starts_with("no place among 1 requests of plugin one at work"), "{error}");
        assert!(error.contains("spec.limits.requests"), "{error}");
    }

    #[tokio::test]
    async fn without_a_limit_there_is_no_lane() {
        let lanes = Lanes::new(0);
        assert!(lanes.enter(&plugin("x", "{}"), &deadline()).await.unwrap().is_none());
        assert!(lanes.lanes.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_new_limit_counts_at_once_and_idle_lanes_go() {
        let lanes = Lanes::new(0);
        drop(lanes.enter(&plugin("gone", "{requests: 1}"), &deadline()).await.unwrap());
        let _first = lanes.enter(&plugin("x", "{requests: 1}"), &deadline()).await.unwrap();
        let full = lanes.enter(&plugin("x", "{requests: 1}"), &deadline()).await;
        assert!(matches!(full, Err(NoPlace::Full { .. })), "{full:?}");
        assert!(lanes.enter(&plugin("x", "{requests: 2}"), &deadline()).await.is_ok());
        assert_eq!(lanes.lanes.lock().unwrap().len(), 1);
    }
}
