//! The lanes of all plugins.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{
    lane::{Lane, NewestDefinition, OwnPlace},
    refusal::{NoPermit, Obstacle},
    waiters::{Room, WaiterCounter, Waiters},
};
use crate::{budget::Budget, plugin::PluginName, request::Deadline};

/// One lane for each plugin, which may limit its own requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lanes {
    each: Arc<Mutex<HashMap<PluginName, Lane>>>,
    budget: watch::Receiver<Budget>,
    /// Requests that wait in all lanes.
    waiting: Arc<WaiterCounter>,
}

impl Lanes {
    /// Lanes in which as many requests may wait as the queue of the present budget holds,
    /// and above that one in each.
    pub(super) fn new(budget: watch::Receiver<Budget>) -> Self {
        Self { each: Arc::default(), budget, waiting: Arc::default() }
    }

    /// Requests that wait in all lanes.
    pub(super) fn waiting(&self) -> Waiters {
        *self.waiting.lock()
    }

    /// The limit for which requests of a plugin wait in its lane; `None` if none does.
    pub(super) fn waits_for(&self, plugin: &PluginName) -> Option<Obstacle> {
        self.each().get(plugin)?.waits_for()
    }

    /// Waits for a place in the plugin's own lane. The request holds `held` bytes meanwhile,
    /// beyond those that each may.
    pub async fn enter(
        &self,
        newest: &NewestDefinition,
        held: u64,
        wait: &Deadline,
    ) -> Result<OwnPlace, NoPermit> {
        let room = Room::from(&*self.budget.borrow());
        self.lane(newest).enter(room, held, wait).await
    }

    /// Takes over the limit of the plugin's newest definition: more places go at once to those
    /// that wait, also on connections of an earlier socket.
    pub fn follow(&self, newest: &NewestDefinition) {
        let plugin = Arc::clone(&newest.borrow());
        if let Some(lane) = self.each().get(&plugin.name) {
            lane.follow(newest);
        }
    }

    /// The plugin's lane, with the limit of its newest definition. Requests without a
    /// limit have a lane too: they count as soon as there is one.
    fn lane(&self, newest: &NewestDefinition) -> Lane {
        let mut lanes = self.each();
        let plugin = Arc::clone(&newest.borrow());
        if let Some(lane) = lanes.get(&plugin.name) {
            lane.follow(newest);
            return lane.clone();
        }
        // Remove the lanes of plugins that are gone or idle.
        lanes.retain(|_, lane| !lane.is_idle());
        let lane = Lane::new(&plugin, &self.waiting);
        lanes.insert(plugin.name.clone(), lane.clone());
        lane
    }

    fn each(&self) -> MutexGuard<'_, HashMap<PluginName, Lane>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Poll, time::Duration};

    use tokio::time::timeout;

    use super::*;
    use crate::{
        budget::Share,
        plugin::{PluginDefinition, definition_of},
        ready::poll_once,
    };

    fn with_queue(queue: usize) -> Budget {
        Budget { queue: Share::new(queue, ""), ..Budget::default() }
    }

    fn lanes(queue: usize) -> Lanes {
        Lanes::new(watch::channel(with_queue(queue)).1)
    }

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
        let lanes = lanes(1);
        let (one, other) = (plugin("one", "{requests: 1}"), plugin("other", "{requests: 1}"));
        let _first = lanes.enter(&one, 0, &deadline()).await.unwrap();
        let _second = lanes.enter(&other, 0, &deadline()).await.unwrap();
        let error = lanes.enter(&one, 0, &deadline()).await.unwrap_err().to_string();
        assert!(
            error.starts_with("no free place: the limit is 1 request of plugin one at a time"),
            "{error}"
        );
        assert!(error.contains("spec.limits.requests"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn all_lanes_share_the_places_of_those_who_wait_but_the_first_in_each() {
        let lanes = lanes(2);
        let plugins = ["one", "other"].map(|name| plugin(name, "{requests: 1}"));
        let mut held = Vec::new();
        for plugin in &plugins {
            held.push(lanes.enter(plugin, 0, &deadline()).await.unwrap());
        }
        let [one, other] = &plugins;
        let deadlines = [deadline(), deadline(), deadline()];
        let mut waiting = [one, one, other]
            .into_iter()
            .zip(&deadlines)
            .map(|(plugin, until)| Box::pin(lanes.enter(plugin, 0, until)))
            .collect::<Vec<_>>();
        for one in &mut waiting {
            assert!(timeout(Duration::ZERO, one).await.is_err());
        }
        for (plugin, own) in plugins.iter().zip([2, 1]) {
            let refused = lanes.enter(plugin, 0, &deadline()).await.unwrap_err().to_string();
            let expected = format!(
                "too many requests: the limit is 1 request of plugin {} at a time, and {own} \
                 waiting (at most 2 of all plugins): ",
                plugin.borrow().name
            );
            assert!(refused.starts_with(&expected), "{refused}");
        }
        drop(waiting);
        assert_eq!(lanes.waiting.lock().requests, 0);
    }

    #[tokio::test]
    async fn requests_without_a_limit_never_wait_and_count_as_soon_as_there_is_one() {
        let lanes = lanes(0);
        let (reload, newest) = watch::channel(definition("x", "{}"));
        let mut held = Vec::new();
        for _ in 0..100 {
            held.push(lanes.enter(&newest, 0, &deadline()).await.unwrap());
        }
        reload.send_replace(definition("x", "{requests: 1}"));
        for _ in 0..100 {
            let full = lanes.enter(&newest, 0, &deadline()).await;
            assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
            held.pop();
        }
        assert!(lanes.enter(&newest, 0, &deadline()).await.is_ok());
    }

    #[tokio::test]
    async fn fewer_places_count_for_those_that_run_and_wait() {
        let lanes = lanes(10);
        let (reload, newest) = watch::channel(definition("x", "{requests: 3}"));
        let until = deadline();
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(lanes.enter(&newest, 0, &until).await.unwrap());
        }
        let mut waiting = [(); 2].map(|()| Box::pin(lanes.enter(&newest, 0, &until)));
        for one in &mut waiting {
            assert!(poll_once(one.as_mut()).await.is_pending());
        }
        reload.send_replace(definition("x", "{requests: 1}"));
        lanes.follow(&newest);
        let [first, second] = &mut waiting;
        for _ in 0..3 {
            assert!(poll_once(first.as_mut()).await.is_pending());
            held.pop();
        }
        let Poll::Ready(Ok(running)) = poll_once(first.as_mut()).await else { panic!("it waits") };
        assert!(poll_once(second.as_mut()).await.is_pending());
        drop(running);
        assert!(poll_once(second.as_mut()).await.is_ready());
    }

    #[tokio::test]
    async fn more_places_go_at_once_to_those_that_wait_in_their_order() {
        let lanes = lanes(10);
        let (reload, newest) = watch::channel(definition("x", "{requests: 1}"));
        let until = deadline();
        // A connection of an earlier socket.
        let retired = plugin("x", "{requests: 1}");
        let _held = lanes.enter(&newest, 0, &until).await.unwrap();
        let mut waiting =
            [&retired, &newest, &newest].map(|newest| Box::pin(lanes.enter(newest, 0, &until)));
        for one in &mut waiting {
            assert!(poll_once(one.as_mut()).await.is_pending());
        }
        reload.send_replace(definition("x", "{requests: 3}"));
        lanes.follow(&newest);
        // No other request arrives or ends.
        let [first, second, third] = &mut waiting;
        assert!(poll_once(third.as_mut()).await.is_pending());
        let mut running = vec![poll_once(first.as_mut()).await, poll_once(second.as_mut()).await];
        assert!(running.iter().all(Poll::is_ready));
        assert!(poll_once(third.as_mut()).await.is_pending());
        running.pop();
        assert!(poll_once(third.as_mut()).await.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_names_the_limit_that_counts_now() {
        let lanes = lanes(10);
        let (reload, newest) = watch::channel(definition("x", "{requests: 2}"));
        let until = deadline();
        let _held = [lanes.enter(&newest, 0, &until).await, lanes.enter(&newest, 0, &until).await];
        let mut waiting = Box::pin(lanes.enter(&newest, 0, &until));
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        reload.send_replace(definition("x", "{requests: 1}"));
        lanes.follow(&newest);
        let error = waiting.await.unwrap_err().to_string();
        assert!(error.contains("the limit is 1 request of plugin x at a time"), "{error}");
    }

    #[tokio::test]
    async fn a_new_limit_applies_at_once_and_idle_lanes_are_removed() {
        let lanes = lanes(0);
        drop(lanes.enter(&plugin("gone", "{requests: 1}"), 0, &deadline()).await.unwrap());
        let (reload, newest) = watch::channel(definition("x", "{requests: 1}"));
        let _first = lanes.enter(&newest, 0, &deadline()).await.unwrap();
        let full = lanes.enter(&newest, 0, &deadline()).await;
        assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
        reload.send_replace(definition("x", "{requests: 2}"));
        assert!(lanes.enter(&newest, 0, &deadline()).await.is_ok());
        assert_eq!(lanes.each.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_request_that_is_about_to_enter_keeps_its_lane() {
        let lanes = lanes(0);
        let (one, other) = (plugin("one", "{requests: 1}"), plugin("other", "{requests: 1}"));
        let about_to_enter = lanes.lane(&one);
        drop(lanes.enter(&other, 0, &deadline()).await.unwrap());
        let room = Room { requests: 0, memory: 0 };
        let _first = about_to_enter.enter(room, 0, &deadline()).await.unwrap();
        let full = lanes.enter(&one, 0, &deadline()).await;
        assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
    }

    #[tokio::test]
    async fn a_retired_definition_does_not_bring_its_limit_back() {
        let lanes = lanes(0);
        let (_reload, again) = watch::channel(definition("x", "{requests: 1}"));
        let retired = plugin("x", "{requests: 2}");
        let _first = lanes.enter(&again, 0, &deadline()).await.unwrap();
        for newest in [&retired, &again] {
            let full = lanes.enter(newest, 0, &deadline()).await;
            assert!(matches!(full, Err(NoPermit::Full { .. })), "{full:?}");
        }
    }

    #[tokio::test]
    async fn the_present_budget_says_how_many_may_wait() {
        let (resize, budget) = watch::channel(with_queue(0));
        let (lanes, newest) = (Lanes::new(budget), plugin("x", "{requests: 1}"));
        let until = deadline();
        let _first = lanes.enter(&newest, 0, &until).await.unwrap();
        let full = lanes.enter(&newest, 0, &until).await;
        assert!(matches!(full, Err(NoPermit::Full { waiting: 0, .. })), "{full:?}");
        resize.send_replace(with_queue(1));
        let mut second = Box::pin(lanes.enter(&newest, 0, &until));
        assert!(poll_once(second.as_mut()).await.is_pending());
        let full = lanes.enter(&newest, 0, &until).await;
        assert!(matches!(full, Err(NoPermit::Full { waiting: 1, .. })), "{full:?}");
    }
}
