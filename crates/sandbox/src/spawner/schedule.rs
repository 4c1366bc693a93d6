//! When a lease is looked at, and what is made of what was seen.

use std::time::{Duration, Instant};

use super::meter::Measurement;
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Time between two looks, and from the first command's start to the first:
/// most requests have ended by then and cost nothing.
const INTERVAL: Duration = Duration::from_millis(250);

/// A look is followed by a pause of so many times its length: looking takes a
/// tenth of a processor at most.
const PAUSE_FACTOR: u32 = 10;

/// How long, and in how many looks, a request may be impossible to measure.
/// Directories that are moved while they are looked at make it so for a moment.
const MAX_UNMEASURED: Duration = Duration::from_secs(5);
const MIN_FAILURES: u32 = 3;

/// The looks at one request, from its first command to the end of its lease.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: RequestLimits,
    phase: Phase,
    /// Since when, and in how many looks, nothing could be told.
    failing: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting(Instant),
    Measuring,
    /// Told of an excess; that is the end of it.
    Exceeded,
}

impl Schedule {
    /// Looks for as long as a lease lasts; `None` if there is nothing to look for.
    pub(super) fn begin(now: Instant, limits: RequestLimits) -> Option<Self> {
        let phase = Phase::Waiting(now + INTERVAL);
        limits.are_set().then_some(Self { limits, phase, failing: None })
    }

    /// When the next look is due, unless one is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting(until) => Some(until),
            Phase::Measuring | Phase::Exceeded => None,
        }
    }

    /// Begins a look that is due, and says at what it must look.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<RequestLimits> {
        self.due().filter(|due| *due <= now)?;
        self.phase = Phase::Measuring;
        Some(self.limits)
    }

    /// Puts a look off that was begun too early.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.phase = Phase::Waiting(now + INTERVAL);
    }

    /// A look that began at `began` has ended. Returns what there is to tell.
    pub(super) fn measured(
        &mut self,
        began: Instant,
        now: Instant,
        found: Measurement,
    ) -> Option<ExceededLimit> {
        let excess = match found {
            Measurement::WithinLimits => {
                self.failing = None;
                let pause = INTERVAL.max((now - began) * PAUSE_FACTOR);
                self.phase = Phase::Waiting(now + pause);
                None
            }
            Measurement::Exceeded(excess) => Some(excess),
            Measurement::Unknown => self.failed(began, now),
        };
        if excess.is_some() {
            self.phase = Phase::Exceeded;
        }
        excess
    }

    /// No long pause after such a look: it may be a tenant's doing, who would
    /// have that time to itself.
    fn failed(&mut self, began: Instant, now: Instant) -> Option<ExceededLimit> {
        let (since, failures) = self.failing.unwrap_or((began, 0));
        self.failing = Some((since, failures + 1));
        self.postpone(now);
        let is_lasting = failures + 1 >= MIN_FAILURES && now - since >= MAX_UNMEASURED;
        is_lasting.then_some(ExceededLimit::Unmeasured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn schedule(now: Instant) -> Schedule {
        let limits = RequestLimits { memory: Some(1), ..RequestLimits::default() };
        Schedule::begin(now, limits).unwrap()
    }

    #[test]
    fn without_a_limit_nobody_looks() {
        let limits = RequestLimits { file_size: Some(1), ..RequestLimits::default() };
        assert!(Schedule::begin(Instant::now(), limits).is_none());
    }

    #[test]
    fn a_command_that_ends_soon_is_not_looked_at() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        assert_eq!(schedule.take_due(now + 249 * MILLISECOND), None);
        assert!(schedule.take_due(now + INTERVAL).is_some());
        assert_eq!(schedule.take_due(now + INTERVAL), None, "one look at a time");
        assert_eq!(schedule.due(), None);
    }

    #[test]
    fn a_long_look_is_followed_by_a_long_pause() {
        let now = Instant::now();
        for (took, pause) in [(MILLISECOND, INTERVAL), (100 * MILLISECOND, 1000 * MILLISECOND)] {
            let mut schedule = schedule(now);
            schedule.take_due(now + INTERVAL);
            assert_eq!(schedule.measured(now, now + took, Measurement::WithinLimits), None);
            assert_eq!(schedule.due(), Some(now + took + pause));
        }
    }

    #[test]
    fn an_excess_is_told_once() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        schedule.take_due(now + INTERVAL);
        let told = schedule.measured(now, now, Measurement::Exceeded(ExceededLimit::Disk));
        assert_eq!((told, schedule.due()), (Some(ExceededLimit::Disk), None));
    }

    #[test]
    fn seeing_nothing_is_borne_for_a_while_only() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let mut told = None;
        let mut failures = 0;
        let mut at = now;
        while told.is_none() {
            at += INTERVAL;
            failures += 1;
            told = schedule.measured(at, at, Measurement::Unknown);
        }
        assert_eq!(told, Some(ExceededLimit::Unmeasured));
        assert_eq!((failures, at - now), (21, MAX_UNMEASURED + INTERVAL));
    }

    #[test]
    fn a_slow_look_that_sees_nothing_is_not_the_last() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let slow = now + 2 * MAX_UNMEASURED;
        assert_eq!(schedule.measured(now, slow, Measurement::Unknown), None);
        assert_eq!(schedule.measured(slow, slow, Measurement::Unknown), None);
        assert_eq!(
            schedule.measured(slow, slow, Measurement::Unknown),
            Some(ExceededLimit::Unmeasured)
        );
    }

    #[test]
    fn one_good_look_makes_up_for_bad_ones() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        for at in 0..20 {
            let at = now + at * 10 * INTERVAL;
            let found = if at == now { Measurement::Unknown } else { Measurement::WithinLimits };
            assert_eq!(schedule.measured(at, at, found), None);
            assert_eq!(schedule.measured(at, at, Measurement::Unknown), None);
        }
    }
}
