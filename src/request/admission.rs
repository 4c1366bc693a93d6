//! Limits how many requests run at a time, and how many may wait.

mod lanes;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::lanes::Lanes;
use super::deadline::{Deadline, DeadlinePassed};
use crate::{
    plugin::PluginName,
    plural::plural,
    settings::{MAX_QUEUE, MAX_REQUESTS, REQUESTS},
};

/// A group of requests with its own limit. Lanes do not wait for each other:
/// discovery must answer while all places for generate are taken, because Argo
/// CD would otherwise apply the raw files.
#[derive(Clone, Debug)]
pub struct Lane {
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    limits: LaneLimits,
}

/// The right to run one request; dropping it frees the place.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

/// The limits of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    limit: usize,
    max_waiting: usize,
    /// The plugin that set the limit; `None` for a lane of all plugins.
    plugin: Option<PluginName>,
}

/// Reasons why a request gets no place.
#[derive(Debug, Error)]
pub enum NoPermit {
    /// Too many requests wait already.
    #[error("too many requests: the limit is {limits} at a time, and {} waiting: {}", limits.max_waiting, limits.remedy())]
    Full {
        /// The limits of the lane.
        limits: LaneLimits,
    },
    /// The deadline passed before a place was free.
    #[error("no free place: the limit is {limits} at a time ({}): {passed}", limits.remedy())]
    Deadline {
        /// The limits of the lane.
        limits: LaneLimits,
        /// The deadline.
        passed: DeadlinePassed,
    },
}

impl LaneLimits {
    /// The settings that allow more requests.
    fn remedy(&self) -> String {
        let places = if self.plugin.is_some() { &REQUESTS } else { &MAX_REQUESTS };
        format!("{}, or {}", places.raise(true), MAX_QUEUE.raise(false))
    }
}

impl fmt::Display for LaneLimits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&plural(self.limit, "request"))?;
        match &self.plugin {
            None => Ok(()),
            Some(plugin) => write!(formatter, " of plugin {plugin}"),
        }
    }
}

impl Lane {
    /// A lane for `limit` running and `max_waiting` waiting requests.
    #[must_use]
    pub fn new(limit: usize, max_waiting: usize) -> Self {
        Self::of(LaneLimits { limit, max_waiting, plugin: None })
    }

    fn of(limits: LaneLimits) -> Self {
        let places = Arc::new(Semaphore::new(limits.limit));
        Self { places, waiting: Arc::default(), limits }
    }

    /// Waits for a place, in the order of arrival.
    pub async fn enter(&self, deadline: &Deadline) -> Result<Permit, NoPermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Permit(place));
        }
        let limits = || self.limits.clone();
        let waiter = Waiter::new(&self.waiting);
        if waiter.number > self.limits.max_waiting {
            return Err(NoPermit::Full { limits: limits() });
        }
        match deadline.limit(Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Permit(place)),
            // The semaphore is never closed.
            Ok(Err(_)) => Err(NoPermit::Full { limits: limits() }),
            Err(passed) => Err(NoPermit::Deadline { limits: limits(), passed }),
        }
    }

    /// True if no request holds a place or waits.
    fn is_idle(&self) -> bool {
        self.places.available_permits() == self.limits.limit
            && self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// Counts as a waiting request until it is dropped.
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
    async fn a_request_waits_for_a_place_until_its_deadline() {
        let lane = Lane::new(1, 1);
        let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
        let first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPermit::Deadline { .. })));
        drop(first);
        assert!(lane.enter(&deadline).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_requests_are_refused_at_once() {
        let lane = Lane::new(1, 0);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        assert!(matches!(lane.enter(&deadline).await, Err(NoPermit::Full { .. })));
    }

    #[tokio::test]
    async fn a_cancelled_request_no_longer_counts_as_waiting() {
        let lane = Lane::new(1, 1);
        let deadline = Deadline::new(None, None);
        let _first = lane.enter(&deadline).await.unwrap();
        {
            let mut second = Box::pin(lane.enter(&deadline));
            assert!(is_pending(second.as_mut()).await);
        }
        assert_eq!(lane.waiting.load(Ordering::Relaxed), 0);
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
