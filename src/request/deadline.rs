//! A request's deadline, and whether the client or the plugin set it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::time::timeout_at;

/// The part of a client's deadline that is kept for sending the answer. Argo CD's value.
const ANSWER_BUFFER: Duration = Duration::from_millis(100);

/// The time at which a request has to end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    began: Instant,
    limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    at: Instant,
    granted: Duration,
    clock: Clock,
}

/// The side that set a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The client: Argo CD gives up then.
    Client,
    /// The plugin, by `spec.limits.timeout`.
    Plugin,
}

/// A deadline that passed.
#[derive(Clone, Copy, Debug, Error)]
#[error("context deadline exceeded: {0}")]
pub struct DeadlinePassed(pub Deadline);

impl Deadline {
    /// No deadline, for tests.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self::new(None, None)
    }

    /// The earlier of the client's deadline, minus the time for the answer, and
    /// the plugin's limit.
    #[must_use]
    pub fn new(client: Option<Duration>, plugin: Option<Duration>) -> Self {
        let began = Instant::now();
        let limit = |granted: Duration, left: Duration, clock| {
            Some(Limit { at: began.checked_add(left)?, granted, clock })
        };
        let client = client.and_then(|granted| {
            limit(granted, granted.saturating_sub(ANSWER_BUFFER), Clock::Client)
        });
        let plugin = plugin.and_then(|granted| limit(granted, granted, Clock::Plugin));
        let limit = [client, plugin].into_iter().flatten().min_by_key(|limit| limit.at);
        Self { began, limit }
    }

    /// The time at which work must stop.
    #[must_use]
    pub fn instant(&self) -> Option<Instant> {
        self.limit.map(|limit| limit.at)
    }

    /// The side that set the deadline; the client if there is none.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.limit.map_or(Clock::Client, |limit| limit.clock)
    }

    /// Time since the request began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The share of the granted time that is used up, if there is a limit.
    #[must_use]
    pub fn used(&self) -> Option<f64> {
        let limit = self.limit?;
        Some(self.began.elapsed().as_secs_f64() / limit.granted.as_secs_f64().max(f64::EPSILON))
    }

    /// Waits for `work`, but not beyond the deadline.
    pub async fn limit<F: Future>(&self, work: F) -> Result<F::Output, DeadlinePassed> {
        match self.limit {
            Some(limit) => {
                timeout_at(limit.at.into(), work).await.map_err(|_elapsed| DeadlinePassed(*self))
            }
            None => Ok(work.await),
        }
    }
}

impl fmt::Display for Deadline {
    /// Names the deadline and the setting that extends it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Limit { granted, clock, .. }) = self.limit else {
            return formatter.write_str("there is no deadline");
        };
        let granted = granted.as_secs_f64();
        match clock {
            Clock::Client => write!(
                formatter,
                "the client's deadline of {granted:.1}s passed: raise \
                 controller.repo.server.timeout.seconds and server.repo.server.timeout.seconds"
            ),
            Clock::Plugin => {
                write!(formatter, "the plugin's own spec.limits.timeout of {granted:.1}s passed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Option<Duration> = Some(Duration::from_secs(2));
    const FIVE: Option<Duration> = Some(Duration::from_secs(5));

    #[test]
    fn the_answer_gets_100_ms_of_the_clients_deadline() {
        let deadline = Deadline::new(FIVE, None);
        let left = deadline.instant().unwrap() - deadline.began;
        assert_eq!(left, Duration::from_millis(4900));
    }

    #[test]
    fn the_earlier_deadline_applies_and_is_named() {
        assert_eq!(Deadline::new(FIVE, TWO).clock(), Clock::Plugin);
        assert_eq!(Deadline::new(TWO, TWO).clock(), Clock::Client);
        assert!(Deadline::new(FIVE, None).to_string().contains("5.0s"));
    }

    #[test]
    fn without_a_limit_there_is_no_deadline() {
        assert_eq!(Deadline::new(None, None).instant(), None);
        assert_eq!(Deadline::new(Some(Duration::MAX), None).instant(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_deadline() {
        let deadline = Deadline::new(TWO, None);
        assert!(deadline.limit(std::future::pending::<()>()).await.is_err());
        assert_eq!(deadline.limit(std::future::ready(1)).await.unwrap(), 1);
    }
}
