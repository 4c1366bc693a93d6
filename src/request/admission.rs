//! How many requests work at a time, and how many may wait.

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
use super::deadline::{Deadline, Passed};
use crate::{
    plugin::PluginName,
    settings::{MAX_QUEUE, MAX_REQUESTS, REQUESTS},
};

/// A lane of requests. Lanes do not wait for each other: discovery must answer
/// while every place for generating is taken, or Argo CD applies raw files.
#[derive(Clone, Debug)]
pub struct Lane {
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    rule: Rule,
}

/// A place among the requests at work, for as long as it lives.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

/// What a lane has room for, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    limit: usize,
    max_waiting: usize,
    /// `None` for the lane of all plugins together.
    plugin: Option<PluginName>,
}

/// Why a request gets no place.
#[derive(Debug, Error)]
pub enum NoPlace {
    /// Too many wait already.
    #[error("{rule} are at work and {} wait, which is the limit: {}", rule.max_waiting, rule.remedy())]
    Full {
        /// What there is room for.
        rule: Rule,
    },
    /// Time was up before there was one.
    #[error("no place among {rule} at work ({}): {passed}", rule.remedy())]
    Deadline {
        /// What there is room for.
        rule: Rule,
        /// Which clock it was.
        passed: Passed,
    },
}

impl Rule {
    /// What gives room to more.
    fn remedy(&self) -> String {
        let places = if self.plugin.is_some() { &REQUESTS } else { &MAX_REQUESTS };
        format!("{}, or {}", places.raise(true), MAX_QUEUE.raise(false))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests", self.limit)?;
        match &self.plugin {
            None => Ok(()),
            Some(plugin) => write!(formatter, " of plugin {plugin}"),
        }
    }
}

impl Lane {
    /// A lane for `limit` requests at a time; `max_waiting` more may wait.
    #[must_use]
    pub fn new(limit: usize, max_waiting: usize) -> Self {
        Self::of(Rule { limit, max_waiting, plugin: None })
    }

    fn of(rule: Rule) -> Self {
        let places = Arc::new(Semaphore::new(rule.limit));
        Self { places, waiting: Arc::default(), rule }
    }

    /// Waits for a place, first come, first served.
    pub async fn enter(&self, deadline: &Deadline) -> Result<Place, NoPlace> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(place));
        }
        let rule = || self.rule.clone();
        let waiter = Waiter::new(&self.waiting);
        if waiter.number > self.rule.max_waiting {
            return Err(NoPlace::Full { rule: rule() });
        }
        match deadline.limit(Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Place(place)),
            // The semaphore is never closed.
            Ok(Err(_)) => Err(NoPlace::Full { rule: rule() }),
            Err(passed) => Err(NoPlace::Deadline { rule: rule(), passed }),
        }
    }

    /// Whether nobody is in it or waits to be.
    fn is_idle(&self) -> bool {
        self.places.available_permits() == self.rule.limit
            && self.waiting.load(Ordering::Relaxed) == 0
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
