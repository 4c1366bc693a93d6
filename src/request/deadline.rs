//! A request's deadline, and whether the client or the plugin set it.

use std::{
    fmt,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::time::{Instant as TokioInstant, timeout_at};

use super::seconds::Seconds;
use crate::ready::poll_once;

/// The part of a client's deadline that is kept for sending the answer. Argo CD's value.
const ANSWER_BUFFER: Duration = Duration::from_millis(100);

/// Further time for the answer in a container with a CPU limit: two of the kernel's periods
/// of 100 ms, in which the limit can stop the supervisor, at most this part of the deadline.
const THROTTLING_BUFFER: Duration = Duration::from_millis(200);
const MAX_THROTTLING_DIVISOR: u32 = 50;

/// The least time that counts as granted.
const LEAST_GRANTED: Duration = Duration::from_millis(1);

/// Rate in bytes per second at which the rest of archives is expected to arrive
/// while their requests end. The machine is usually busy then.
const DRAIN_RATE: u64 = 8 << 20;

/// Reading the rest of a request's own archive takes at most this part of the
/// time that the client has left, as a divisor, and reading those of others at most
/// the other part: a wait that ends too early helps nobody.
const MAX_DRAIN_DIVISOR: u32 = 2;
const MAX_OTHERS_DIVISOR: u32 = 4;

/// The time at which a request has to end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    began: Instant,
    /// The time that the client grants.
    client: Option<Duration>,
    /// The time that the plugin grants.
    plugin: Option<Duration>,
    /// The container has a CPU limit.
    is_throttled: bool,
    /// The time from the beginning until that of the plugin begins, in whole tenths of a second.
    /// Errors carry a deadline, so it is small.
    packing: u16,
    /// The part of the granted time for which the request waited in the queue, in per cent.
    queued: u8,
    /// The part of the client's time in which the rest of the archive is read, in
    /// milliseconds.
    drain: u32,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    at: Instant,
    granted: Duration,
    from: Duration,
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
        let began = TokioInstant::now().into_std();
        Self { began, client, plugin, is_throttled: false, packing: 0, queued: 0, drain: 0 }
    }

    /// The deadline with the plugin's limit as of now.
    #[must_use]
    pub fn with_plugin(self, plugin: Option<Duration>) -> Self {
        let packing = self.elapsed().as_millis() / 100;
        Self { plugin, packing: packing.try_into().unwrap_or(u16::MAX), ..self }
    }

    /// The deadline of a request that has waited in the queue for this time, which its errors
    /// tell.
    #[must_use]
    pub(super) fn after_queue(self, waited: Duration) -> Self {
        let Some(Limit { granted, .. }) = self.earliest() else { return self };
        let part = waited.as_millis() * 100 / granted.max(LEAST_GRANTED).as_millis();
        Self { queued: u8::try_from(part).map_or(100, |part| part.min(100)), ..self }
    }

    /// The deadline in a container with a CPU limit.
    #[must_use]
    pub fn with_throttling(self) -> Self {
        Self { is_throttled: true, ..self }
    }

    /// The deadline for a wait, after which `unread` bytes of the request's archive
    /// must be read. While a client still sends, it does not see the answer.
    #[must_use]
    pub(super) fn before_reading(&self, unread: u64) -> Self {
        self.before_reading_all(unread, unread)
    }

    /// The deadline for a wait, after which `unread` bytes of the request's archive must be
    /// read, and `all` bytes of those of all waiting requests, this one included.
    #[must_use]
    pub(super) fn before_reading_all(&self, unread: u64, all: u64) -> Self {
        // While the client packed the repository, nothing could be read.
        let left = self.client.unwrap_or_default().saturating_sub(self.elapsed());
        let needed = |bytes: u64| Duration::from_millis(bytes.saturating_mul(1000) / DRAIN_RATE);
        let own = needed(unread).min(left / MAX_DRAIN_DIVISOR);
        let drain = own.max(needed(all).min(left / MAX_OTHERS_DIVISOR));
        Self { drain: u32::try_from(drain.as_millis()).unwrap_or(u32::MAX), ..*self }
    }

    /// The time at which work must stop.
    #[must_use]
    pub(super) fn instant(&self) -> Option<Instant> {
        self.earliest().map(|limit| limit.at)
    }

    fn drain(&self) -> Duration {
        Duration::from_millis(self.drain.into())
    }

    /// The part of the client's deadline that is kept for the answer.
    fn kept(&self, granted: Duration) -> Duration {
        let throttling = THROTTLING_BUFFER.min(granted / MAX_THROTTLING_DIVISOR);
        ANSWER_BUFFER + if self.is_throttled { throttling } else { Duration::ZERO }
    }

    /// True if the client grants no more than is kept for the answer: nothing can run.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.client.is_some_and(|granted| granted <= self.kept(granted))
    }

    /// The end of the cause in an error: much of the time in the queue, with its remedy.
    fn after_wait(&self) -> String {
        let Self { queued, .. } = self;
        if *queued < SHOWN_QUEUED {
            return ":".to_owned();
        }
        format!(", {queued} % of it in the queue: let more requests run at a time, or")
    }

    fn limit_of(&self, clock: Clock) -> Option<Limit> {
        let (granted, from, reserved) = match clock {
            Clock::Client => {
                let granted = self.client?;
                (granted, Duration::ZERO, self.kept(granted) + self.drain())
            }
            Clock::Plugin => {
                (self.plugin?, Duration::from_millis(self.packing.into()) * 100, Duration::ZERO)
            }
        };
        let at = self.began.checked_add(from)?.checked_add(granted.saturating_sub(reserved))?;
        Some(Limit { at, granted, from, clock })
    }

    fn earliest(&self) -> Option<Limit> {
        let limits = [Clock::Client, Clock::Plugin].map(|clock| self.limit_of(clock));
        limits.into_iter().flatten().min_by_key(|limit| limit.at)
    }

    /// The side that set the deadline; the client if there is none.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.earliest().map_or(Clock::Client, |limit| limit.clock)
    }

    /// Time since the request began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        TokioInstant::now() - TokioInstant::from_std(self.began)
    }

    /// True once the client's deadline has passed, or only the time for the answer is left.
    #[must_use]
    pub fn client_gives_up(&self) -> bool {
        let now = TokioInstant::now().into_std();
        self.limit_of(Clock::Client).is_some_and(|limit| limit.at <= now)
    }

    /// The share of the granted time that is used up, if there is a limit. A client whose
    /// deadline passes as it calls grants no time, and must not outweigh all others in a sum.
    #[must_use]
    pub fn used(&self) -> Option<f64> {
        let Limit { granted, from, .. } = self.earliest()?;
        let elapsed = self.elapsed().saturating_sub(from);
        Some(elapsed.as_secs_f64() / granted.max(LEAST_GRANTED).as_secs_f64())
    }

    /// Waits for `work`, but not beyond the deadline.
    pub async fn limit<F: Future>(&self, work: F) -> Result<F::Output, DeadlinePassed> {
        let mut work = pin!(work);
        if let Poll::Ready(done) = poll_once(work.as_mut()).await {
            return Ok(done);
        }
        match self.earliest() {
            Some(limit) => {
                timeout_at(limit.at.into(), work).await.map_err(|_elapsed| DeadlinePassed(*self))
            }
            None => Ok(work.await),
        }
    }
}

/// The settings that extend the deadline of Argo CD's client.
pub const CLIENT_REMEDY: &str =
    "raise controller.repo.server.timeout.seconds and server.repo.server.timeout.seconds";

/// Shortest time that the text mentions.
const SHOWN_DRAIN: Duration = Duration::from_millis(100);

/// Least part of the time in the queue that the text mentions, in per cent.
const SHOWN_QUEUED: u8 = 25;

impl fmt::Display for Deadline {
    /// Names the deadline and the setting that extends it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Limit { granted, clock, .. }) = self.earliest() else {
            return formatter.write_str("there is no deadline");
        };
        let end = self.after_wait();
        let (granted, drain) = (Seconds(granted), self.drain());
        match clock {
            Clock::Client => {
                write!(formatter, "the client's deadline of {granted}")?;
                if drain >= SHOWN_DRAIN {
                    let drain = Seconds(drain);
                    write!(formatter, ", minus {drain} to read the rest of the archive,")?;
                }
                write!(formatter, " passed{end} {CLIENT_REMEDY}")
            }
            Clock::Plugin => {
                write!(
                    formatter,
                    "the plugin's own spec.limits.timeout of {granted} passed{end} raise it"
                )
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
    fn a_cpu_limit_leaves_the_answer_more_of_a_long_deadline() {
        let left = |granted| {
            let deadline = Deadline::new(Some(granted), None).with_throttling();
            deadline.instant().unwrap() - deadline.began
        };
        assert_eq!(left(Duration::from_mins(1)), Duration::from_millis(59_700));
        assert_eq!(left(Duration::from_secs(1)), Duration::from_millis(880));
    }

    #[test]
    fn the_earlier_deadline_applies_and_is_named() {
        assert_eq!(Deadline::new(FIVE, TWO).clock(), Clock::Plugin);
        assert_eq!(Deadline::new(TWO, TWO).clock(), Clock::Client);
        assert!(Deadline::new(FIVE, None).to_string().contains("5.0s"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_packed_for_long_may_still_wait() {
        let deadline = Deadline::new(Some(Duration::from_mins(1)), None);
        tokio::time::advance(Duration::from_secs(50)).await;
        let wait = deadline.before_reading(u64::MAX);
        let ends = wait.instant().unwrap() - deadline.began;
        assert_eq!(ends, Duration::from_millis(54_900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_early_enough_to_read_the_rest_of_the_archive() {
        let left = |deadline: Deadline| deadline.instant().unwrap() - deadline.began;
        let deadline = Deadline::new(FIVE, None);
        assert_eq!(left(deadline.before_reading(0)), Duration::from_millis(4900));
        let wait = deadline.before_reading(DRAIN_RATE);
        assert_eq!(left(wait), Duration::from_millis(3900));
        assert!(wait.to_string().starts_with("the client's deadline of 5.0s, minus 1.0s to"));
        assert_eq!(left(deadline.before_reading(u64::MAX)), Duration::from_millis(2400));
        let others = deadline.before_reading_all(0, u64::MAX);
        assert_eq!(left(others), Duration::from_millis(3650));
        let limited = Deadline::new(FIVE, TWO).before_reading(u64::MAX);
        assert_eq!((left(limited), limited.clock()), (Duration::from_secs(2), Clock::Plugin));
    }

    #[tokio::test(start_paused = true)]
    async fn the_plugins_time_begins_when_it_is_granted() {
        let opened = Deadline::new(FIVE, None);
        tokio::time::advance(Duration::from_secs(2)).await;
        let deadline = opened.with_plugin(TWO);
        assert_eq!(deadline.instant().unwrap() - opened.began, Duration::from_secs(4));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((deadline.clock(), deadline.used()), (Clock::Plugin, Some(0.5)));
    }

    #[test]
    fn a_long_wait_in_the_queue_is_told_with_its_remedy() {
        let text = |deadline: Deadline, waited| {
            deadline.after_queue(Duration::from_millis(waited)).to_string()
        };
        let of_client = Deadline::new(FIVE, None);
        let told = "the client's deadline of 5.0s passed, 99 % of it in the queue: let more \
                    requests run at a time, or raise controller.repo.server.timeout.seconds";
        assert!(text(of_client, 4950).starts_with(told), "{}", text(of_client, 4950));
        assert!(text(of_client, 1200).contains(" passed: raise controller"));
        let of_plugin = text(Deadline::new(FIVE, TWO), 1900);
        assert!(of_plugin.ends_with("in the queue: let more requests run at a time, or raise it"));
        assert!(text(Deadline::new(FIVE, Some(Duration::ZERO)), 0).ends_with(" passed: raise it"));
    }

    #[test]
    fn without_a_limit_there_is_no_deadline() {
        assert_eq!(Deadline::new(None, None).instant(), None);
        assert_eq!(Deadline::new(Some(Duration::MAX), None).instant(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_grants_no_time_does_not_outweigh_others() {
        for granted in [Duration::ZERO, Duration::from_nanos(1)] {
            let deadline = Deadline::new(Some(granted), None);
            tokio::time::advance(Duration::from_millis(3)).await;
            assert_eq!(deadline.used(), Some(3.0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_deadline() {
        let deadline = Deadline::new(TWO, None);
        assert!(deadline.limit(std::future::pending::<()>()).await.is_err());
        assert_eq!(deadline.limit(std::future::ready(1)).await.unwrap(), 1);
    }
}
