//! The places of one plugin that limits its own requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::{NoPermit, Obstacle};
use crate::{plugin::PluginName, request::deadline::Deadline};

/// A plugin's own places, in the order of arrival. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Number of requests that wait in all lanes.
    all_waiting: Arc<AtomicUsize>,
    pub(super) limit: usize,
    max_waiting: usize,
    plugin: PluginName,
}

/// One of the plugin's own places; dropping it frees the place.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Lane {
    /// Places for `limit` running requests. At most `max_waiting` wait in all lanes,
    /// and above that one in each.
    pub(super) fn new(
        plugin: &PluginName,
        limit: usize,
        max_waiting: usize,
        all_waiting: &Arc<AtomicUsize>,
    ) -> Self {
        let (places, waiting) = (Arc::new(Semaphore::new(limit)), Arc::default());
        let (plugin, all_waiting) = (plugin.clone(), Arc::clone(all_waiting));
        Self { places, waiting, all_waiting, limit, max_waiting, plugin }
    }

    /// Waits for a place, in the order of arrival.
    pub(super) async fn enter(&self, wait: &Deadline) -> Result<Place, NoPermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(place));
        }
        let waiter = Waiter::new([&self.waiting, &self.all_waiting]);
        let [own, all] = waiter.numbers;
        if own > self.max_waiting || (all > self.max_waiting && own > 1) {
            return Err(self.full(own - 1));
        }
        match wait.limit(Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Place(place)),
            // The semaphore is never closed.
            Ok(Err(_)) => Err(self.full(own - 1)),
            Err(passed) => Err(NoPermit::Deadline { obstacle: self.obstacle(), passed }),
        }
    }

    fn full(&self, own: usize) -> NoPermit {
        let (waiting, own) = (self.max_waiting, Some(own));
        NoPermit::Full { obstacle: self.obstacle(), waiting, own }
    }

    fn obstacle(&self) -> Obstacle {
        Obstacle::Own { limit: self.limit, plugin: self.plugin.clone() }
    }

    /// True if no request holds a place, waits, or is about to enter: each of them holds
    /// the places too.
    pub(super) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.places) == 1
    }
}

/// Counts as a waiting request, in its lane and in all lanes, until it is dropped.
struct Waiter<'w> {
    counters: [&'w AtomicUsize; 2],
    numbers: [usize; 2],
}

impl<'w> Waiter<'w> {
    fn new(counters: [&'w AtomicUsize; 2]) -> Self {
        let numbers = counters.map(|counter| counter.fetch_add(1, Ordering::Relaxed) + 1);
        Self { counters, numbers }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        for counter in self.counters {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lane(limit: usize, max_waiting: usize) -> Lane {
        let plugin = PluginName::new("p", "").unwrap();
        Lane::new(&plugin, limit, max_waiting, &Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_place_until_its_deadline() {
        let lane = lane(1, 1);
        let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
        let first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPermit::Deadline { .. })));
        drop(first);
        assert!(lane.enter(&deadline).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_requests_are_refused_at_once() {
        let lane = lane(1, 0);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPermit::Full { .. })));
    }

    #[tokio::test]
    async fn a_cancelled_request_no_longer_counts_as_waiting() {
        let lane = lane(1, 1);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        {
            let mut second = Box::pin(lane.enter(&deadline));
            assert!(is_pending(second.as_mut()).await);
        }
        for counter in [&lane.waiting, &lane.all_waiting] {
            assert_eq!(counter.load(Ordering::Relaxed), 0);
        }
    }

    /// Polls a future once; true if it is still pending.
    async fn is_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|context| {
            let pending = future.as_mut().is_some_and(|f| f.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
