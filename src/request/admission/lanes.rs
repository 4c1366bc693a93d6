//! The lanes of plugins that limit their own requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
};

use tokio::sync::watch;

use super::{
    lane::{Lane, Place},
    refusal::NoPermit,
};
use crate::{
    plugin::{PluginDefinition, PluginName},
    request::Deadline,
};

/// The newest definition of a served plugin; the last one when it is no longer served.
/// Connections keep older ones, but all requests of a plugin share its places.
pub type NewestDefinition = watch::Receiver<Arc<PluginDefinition>>;

/// One lane for each plugin that sets a limit. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lanes {
    each: Arc<Mutex<HashMap<PluginName, Lane>>>,
    max_waiting: usize,
    /// Requests that wait in all lanes.
    waiting: Arc<AtomicUsize>,
}

impl Lanes {
    /// Lanes in which `max_waiting` requests may wait, and above that one in each.
    /// `waiting` counts them.
    pub(super) fn new(max_waiting: usize, waiting: Arc<AtomicUsize>) -> Self {
        Self { each: Arc::default(), max_waiting, waiting }
    }

    /// Waits for a place in the plugin's own lane, if its newest definition sets a limit.
    pub async fn enter(
        &self,
        newest: &NewestDefinition,
        wait: &Deadline,
    ) -> Result<Option<Place>, NoPermit> {
        match self.lane(newest) {
            Some(lane) => lane.enter(wait).await.map(Some),
            None => Ok(None),
        }
    }

    /// The plugin's lane. A changed limit creates a new lane; requests in the old
    /// one stay there until they end.
    fn lane(&self, newest: &NewestDefinition) -> Option<Lane> {
        let mut lanes = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        // Not before the lock: a request with an older limit could come later.
        let is_retired = newest.has_changed().is_err();
        let plugin = Arc::clone(&newest.borrow());
        let limit = plugin.limits.requests? as usize;
        // The plugin may be served again, with another limit.
        let is_right = |lane: &&Lane| is_retired || lane.limit == limit;
        if let Some(lane) = lanes.get(&plugin.name).filter(is_right) {
            return Some(lane.clone());
        }
        // Remove the lanes of plugins that are gone or idle.
        lanes.retain(|_, lane| !lane.is_idle());
        let lane = Lane::new(&plugin.name, limit, self.max_waiting, &self.waiting);
        lanes.insert(plugin.name.clone(), lane.clone());
        Some(lane)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering, time::Duration};

    use tokio::time::timeout;

    use super::*;
    use crate::plugin::definition_of;

    fn definition(name: &str, limits: &str) -> Arc<PluginDefinition> {
        Arc::new(definition_of(name, &format!("limits: {limits}")))
    }

    fn plugin(name: &str, limits: &str) -> NewestDefinition {
        watch::channel(definition(name, limits)).1
    }

    fn deadline() -> Deadline {
        Deadline::new(Some(Duration::from_secs(1)), None)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_only_for_those_of_their_own_plugin() {
        let lanes = Lanes::new(1, Arc::default());
        let (one, other) = (plugin("one", "{requests: 1}"), plugin("other", "{requests: 1}"));
        let _first = lanes.enter(&one, &deadline()).await.unwrap();
        let _second = lanes.enter(&other, &deadline()).await.unwrap();
        let error = lanes.enter(&one, &deadline()).await.unwrap_err().to_string();
        assert!(
            error.starts_with("no free place: the limit is 1 request of plugin one at a time"),
            "{error}"
        );
        assert!(error.contains("spec.limits.requests"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn all_lanes_share_the_places_of_those_who_wait_but_the_first_in_each() {
        let lanes = Lanes::new(2, Arc::default());
        let plugins = ["one", "other"].map(|name| plugin(name, "{requests: 1}"));
        let mut held = Vec::new();
        for plugin in &plugins {
            held.push(lanes.enter(plugin, &deadline()).await.unwrap());
        }
        let [one, other] = &plugins;
        let deadlines = [deadline(), deadline(), deadline()];
        let mut waiting = [one, one, other]
            .into_iter()
            .zip(&deadlines)
            .map(|(plugin, until)| Box::pin(lanes.enter(plugin, until)))
            .collect::<Vec<_>>();
        for one in &mut waiting {
            assert!(timeout(Duration::ZERO, one).await.is_err());
        }
        for (plugin, own) in plugins.iter().zip([2, 1]) {
            let refused = lanes.enter(plugin, &deadline()).await.unwrap_err().to_string();
            let expected = format!(
                "too many requests: the limit is 1 request of plugin {} at a time, and {own} \
                 waiting (at most 2 of all plugins): ",
                plugin.borrow().name
            );
            assert!(refused.starts_with(&expected), "{refused}");
        }
        drop(waiting);
        assert_eq!(lanes.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn without_a_limit_there_is_no_lane() {
        let lanes = Lanes::new(0, Arc::default());
        assert!(lanes.enter(&plugin("x", "{}"), &deadline()).await.unwrap().is_none());
        assert!(lanes.each.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_new_limit_applies_at_once_and_idle_lanes_are_removed() {
        let lanes = Lanes::new(0, Arc::default());
        drop(lanes.enter(&plugin("gone", "{requests: 1}"), &deadline()).await.unwrap());
        let (reload, newest) = watch::channel(definition("x", "{requests: 1}"));
        let _first = lanes.enter(&newest, &deadline()).await.unwrap();
        let full = lanes.enter(&newest, &deadline()).await;
        assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
        reload.send_replace(definition("x", "{requests: 2}"));
        assert!(lanes.enter(&newest, &deadline()).await.is_ok());
        assert_eq!(lanes.each.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_request_that_is_about_to_enter_keeps_its_lane() {
        let lanes = Lanes::new(0, Arc::default());
        let (one, other) = (plugin("one", "{requests: 1}"), plugin("other", "{requests: 1}"));
        let about_to_enter = lanes.lane(&one).unwrap();
        drop(lanes.enter(&other, &deadline()).await.unwrap());
        let _first = about_to_enter.enter(&deadline()).await.unwrap();
        let full = lanes.enter(&one, &deadline()).await;
        assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
    }

    #[tokio::test]
    async fn a_retired_definition_does_not_bring_its_limit_back() {
        let lanes = Lanes::new(0, Arc::default());
        let (_reload, again) = watch::channel(definition("x", "{requests: 1}"));
        let retired = plugin("x", "{requests: 2}");
        let _first = lanes.enter(&again, &deadline()).await.unwrap();
        for newest in [&retired, &again] {
            let full = lanes.enter(newest, &deadline()).await;
            assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
        }
    }
}
