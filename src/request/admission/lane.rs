//! The places of one plugin.

use std::sync::Arc;

use tokio::{sync::watch, time::Instant};

use super::{
    refusal::{NoPermit, Obstacle},
    waited::Waited,
    waiters::{Lack, Room, WaiterCounter},
};
use crate::{
    plugin::{PluginDefinition, PluginName},
    request::deadline::{Deadline, DeadlinePassed},
    semaphore::{Place, ResizableSemaphore},
};

/// The newest definition of a served plugin; the last one when it is no longer served.
/// Connections keep older ones, but all requests of a plugin share its places.
pub type NewestDefinition = watch::Receiver<Arc<PluginDefinition>>;

/// A plugin's own places, in the order of arrival. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    places: Arc<ResizableSemaphore>,
    waiting: Arc<WaiterCounter>,
    /// Requests that wait in all lanes.
    all_waiting: Arc<WaiterCounter>,
    plugin: PluginName,
}

/// A place of a plugin's own.
#[derive(Debug)]
pub struct OwnPlace {
    _place: Place,
    /// Set if the request had to wait.
    waited: Option<Waited>,
}

impl OwnPlace {
    /// The error of a request whose deadline passed after it got this place, if the wait for
    /// the place was the longer one.
    pub(crate) fn late(&self, passed: DeadlinePassed) -> Option<NoPermit> {
        self.waited.as_ref()?.late(passed)
    }
}

impl Lane {
    /// The places that a definition sets. `all_waiting` counts those that wait in all lanes.
    pub(super) fn new(plugin: &PluginDefinition, all_waiting: &Arc<WaiterCounter>) -> Self {
        Self {
            places: ResizableSemaphore::new(limit_of(plugin)),
            waiting: Arc::default(),
            all_waiting: Arc::clone(all_waiting),
            plugin: plugin.name.clone(),
        }
    }

    /// Takes over a changed limit. One of a plugin that is no longer served does not
    /// count: the plugin may be served again, with another one.
    pub(super) fn follow(&self, newest: &NewestDefinition) {
        // Not before the lock: a request with an older limit could come later.
        self.places.resize(|present| {
            if newest.has_changed().is_err() { present } else { limit_of(&newest.borrow()) }
        });
    }

    /// Waits for a place, in the order of arrival. All lanes share the `room` for requests that
    /// wait, and above that one waits in each. This one holds `held` bytes meanwhile.
    pub(super) async fn enter(
        &self,
        room: Room,
        held: u64,
        wait: &Deadline,
    ) -> Result<OwnPlace, NoPermit> {
        let refused = match self.places.try_take() {
            Ok(place) => return Ok(OwnPlace { _place: place, waited: None }),
            Err(limit) => limit,
        };
        let full = |(lack, own)| NoPermit::no_room(room, lack, self.obstacle(refused), Some(own));
        let _waiter = Waiter::enter(self, room, held).map_err(full)?;
        let began = Instant::now();
        let place = wait.limit(self.places.take()).await;
        // The present limit, or the one that refused the request if there is none any more.
        let obstacle = self.obstacle(match self.places.limit() {
            ResizableSemaphore::UNLIMITED => refused,
            present => present,
        });
        match place {
            Ok(place) => {
                Ok(OwnPlace { _place: place, waited: Some(Waited::since(began, obstacle)) })
            }
            Err(passed) => Err(NoPermit::Deadline { obstacle, passed }),
        }
    }

    fn obstacle(&self, limit: usize) -> Obstacle {
        Obstacle::Own { limit, plugin: self.plugin.clone() }
    }

    /// The limit for which requests wait; `None` if none does, or if a change is about to
    /// admit all.
    pub(super) fn waits_for(&self) -> Option<Obstacle> {
        let limit = self.places.limit();
        let waits = limit != ResizableSemaphore::UNLIMITED && self.waiting.lock().requests > 0;
        waits.then(|| self.obstacle(limit))
    }

    /// True if no request holds a place, waits, or is about to enter: each of them holds
    /// the places too.
    pub(super) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.places) == 1
    }
}

fn limit_of(plugin: &PluginDefinition) -> usize {
    plugin.limits.requests.map_or(ResizableSemaphore::UNLIMITED, |limit| limit as usize)
}

/// Counts as a waiting request, in its lane and in all lanes, until it is dropped.
struct Waiter<'l> {
    lane: &'l Lane,
    held: u64,
}

impl<'l> Waiter<'l> {
    /// Fails if there is no room, with the number of those that wait in the lane.
    fn enter(lane: &'l Lane, room: Room, held: u64) -> Result<Self, (Lack, usize)> {
        // A refused request is never counted: others could be refused because of it.
        let (mut own, mut all) = (lane.waiting.lock(), lane.all_waiting.lock());
        let is_first = own.requests == 0 && room.requests > 0;
        if !is_first {
            room.check(*all, held).map_err(|lack| (lack, own.requests))?;
        }
        own.add(held);
        all.add(held);
        Ok(Self { lane, held })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        for counter in [&self.lane.waiting, &self.lane.all_waiting] {
            counter.lock().remove(self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        budget::WAITING, plugin::definition_of, ready::poll_once,
        request::admission::waiters::Waiters,
    };

    /// Room for so many requests that hold no more than each may.
    fn room(requests: usize) -> Room {
        Room { requests, memory: WAITING * requests as u64 }
    }

    /// A plugin with one place.
    fn one_place() -> Lane {
        Lane::new(&definition_of("p", "limits: {requests: 1}"), &Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_place_until_its_deadline() {
        let lane = one_place();
        let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
        let first = lane.enter(room(1), 0, &deadline).await.unwrap();
        let outcome = lane.enter(room(1), 0, &deadline).await;
        assert!(matches!(outcome, Err(NoPermit::Deadline { .. })), "{outcome:?}");
        drop(first);
        assert!(lane.enter(room(1), 0, &deadline).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_requests_are_refused_at_once() {
        let lane = one_place();
        let deadline = Deadline::none();
        let _first = lane.enter(room(0), 0, &deadline).await.unwrap();
        let refused = lane.enter(room(0), 0, &deadline).await;
        assert!(matches!(refused, Err(NoPermit::Full { .. })), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_hold_much_wait_only_while_there_is_memory() {
        let lane = one_place();
        let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
        let _first = lane.enter(room(4), 0, &deadline).await.unwrap();
        let enter = |held| Box::pin(lane.enter(room(4), held, &deadline));
        // The first one always waits.
        let mut large = enter(3 * WAITING);
        assert!(poll_once(large.as_mut()).await.is_pending());
        let error = enter(1).await.unwrap_err().to_string();
        assert!(error.contains("ARGOCD_CMP_CHUNK_SIZE"), "{error}");
        drop(large);
        assert!(poll_once(enter(1).as_mut()).await.is_pending());
    }

    #[test]
    fn a_refused_request_never_counts_as_waiting() {
        let lane = one_place();
        let _first = Waiter::enter(&lane, room(2), 0).ok();
        let refused = Waiter::enter(&lane, room(2), WAITING);
        for counter in [&lane.waiting, &lane.all_waiting] {
            assert_eq!(*counter.lock(), Waiters { requests: 1, held: 0 });
        }
        assert_eq!(refused.err(), Some((Lack::Memory, 1)));
    }

    #[tokio::test]
    async fn a_cancelled_request_no_longer_counts_as_waiting() {
        let lane = one_place();
        let deadline = Deadline::none();
        let _first = lane.enter(room(1), 0, &deadline).await.unwrap();
        {
            let mut second = Box::pin(lane.enter(room(1), 0, &deadline));
            assert!(poll_once(second.as_mut()).await.is_pending());
        }
        for counter in [&lane.waiting, &lane.all_waiting] {
            assert_eq!(*counter.lock(), Waiters::default());
        }
    }
}
