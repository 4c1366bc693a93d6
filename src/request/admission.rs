//! How many requests work at a time, and how many may wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::deadline::{Deadline, Passed};

/// A lane of requests. Lanes do not wait for each other: discovery must answer
/// while every place for generating is taken, or Argo CD applies raw files.
#[derive(Clone, Debug)]
pub struct Lane {
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
    max_waiting: usize,
}

/// A place among the requests at work, for as long as it lives.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

/// Why a request gets no place.
#[derive(Debug, Error)]
pub enum NoPlace {
    /// Too many wait already.
    #[error(
        "{limit} requests are at work and {waiting} wait, which is the limit: raise \
         --max-requests or --max-queue"
    )]
    Full {
        /// Places in the lane.
        limit: usize,
        /// Most that may wait.
        waiting: usize,
    },
    /// Time was up before there was one.
    #[error("no place among {limit} requests at work: {passed}")]
    Deadline {
        /// Places in the lane.
        limit: usize,
        /// Which clock it was.
        passed: Passed,
    },
}

impl Lane {
    /// A lane for `limit` requests at a time; `max_waiting` more may wait.
    #[must_use]
    pub fn new(limit: usize, max_waiting: usize) -> Self {
        let places = Arc::new(Semaphore::new(limit));
        Self { places, waiting: Arc::default(), limit, max_waiting }
    }

    /// Waits for a place, first come, first served.
    pub async fn enter(&self, deadline: &Deadline) -> Result<Place, NoPlace> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(place));
        }
        let waiter = Waiter::new(&self.waiting);
        if waiter.number > self.max_waiting {
            return Err(NoPlace::Full { limit: self.limit, waiting: self.max_waiting });
        }
        match deadline.limit(Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Place(place)),
            // The semaphore is never closed.
            Ok(Err(_)) => Err(NoPlace::Full { limit: self.limit, waiting: self.max_waiting }),
            Err(passed) => Err(NoPlace::Deadline { limit: self.limit, passed }),
        }
    }
}

/// Counts as waiting for as long as it lives.
struct Waiter<'w> {
    waiting: &'w AtomicUsize,
    number: usize,
}

impl<'w> Waiter<'w> {
    fn new(waiting: &'w AtomicUsize) -> Self {
        Self { waiting, number: waiting.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_is_waited_for_until_the_deadline() {
        let lane = Lane::new(1, 1);
        let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
        let first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPlace::Deadline { .. })));
        drop(first);
        assert!(lane.enter(&deadline).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_are_turned_away_at_once() {
        let lane = Lane::new(1, 0);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPlace::Full { .. })));
    }

    #[tokio::test]
    async fn who_gives_up_waits_no_longer() {
        let lane = Lane::new(1, 1);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        {
            let mut second = Box::pin(lane.enter(&deadline));
            assert!(futures_poll(second.as_mut()).await);
        }
        assert_eq!(lane.waiting.load(Ordering::Relaxed), 0);
    }

    /// Whether a future is still pending after one poll.
    async fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|context| {
            let pending = future.as_mut().is_some_and(|f| f.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
