//! The times at which a lease is measured, and the reaction to results. Pure.

use std::time::{Duration, Instant};

use super::meter::Measurement;
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Time between two measurements, and from the first command to the first one.
/// Most requests end earlier and need none.
const INTERVAL: Duration = Duration::from_millis(250);

/// The pause after a measurement is this many times as long as the measurement,
/// so measuring takes at most a tenth of a core.
const PAUSE_FACTOR: u32 = 10;

/// A request that could not be measured for this time, and in this many
/// measurements, has exceeded its limits. Moving directories can make a single
/// measurement fail.
const MAX_UNMEASURED: Duration = Duration::from_secs(5);
const MIN_FAILURES: u32 = 3;

/// The measurements of one request, from its first command to its end.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: RequestLimits,
    phase: Phase,
    /// Start and number of failed measurements in a row.
    failing: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting(Instant),
    Measuring,
    /// A limit was exceeded, which ends the measurements.
    Exceeded,
}

impl Schedule {
    /// Starts the schedule; `None` if there is no limit to check.
    pub(super) fn begin(now: Instant, limits: RequestLimits) -> Option<Self> {
        let phase = Phase::Waiting(now + INTERVAL);
        limits.are_set().then_some(Self { limits, phase, failing: None })
    }

    /// Time of the next measurement; `None` while one runs.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting(until) => Some(until),
            Phase::Measuring | Phase::Exceeded => None,
        }
    }

    /// Starts a measurement if it is due. Returns the limits to check.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<RequestLimits> {
        self.due().filter(|due| *due <= now)?;
        self.phase = Phase::Measuring;
        Some(self.limits)
    }

    /// Postpones a measurement that cannot start now.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.phase = Phase::Waiting(now + INTERVAL);
    }

    /// Handles the result of a measurement. Returns the limit to report, if
    /// any.
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

    /// The pause is short, because a tenant may cause failures to gain time.
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
    fn without_a_limit_nothing_is_measured() {
        let limits = RequestLimits { file_size: Some(1), ..RequestLimits::default() };
        assert!(Schedule::begin(Instant::now(), limits).is_none());
    }

    #[test]
    fn a_short_command_is_not_measured() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        assert_eq!(schedule.take_due(now + 249 * MILLISECOND), None);
        assert!(schedule.take_due(now + INTERVAL).is_some());
        assert_eq!(schedule.take_due(now + INTERVAL), None, "one look at a time");
        assert_eq!(schedule.due(), None);
    }

    #[test]
    fn a_slow_measurement_is_followed_by_a_long_pause() {
        let now = Instant::now();
        for (took, pause) in [(MILLISECOND, INTERVAL), (100 * MILLISECOND, 1000 * MILLISECOND)] {
            let mut schedule = schedule(now);
            schedule.take_due(now + INTERVAL);
            assert_eq!(schedule.measured(now, now + took, Measurement::WithinLimits), None);
            assert_eq!(schedule.due(), Some(now + took + pause));
        }
    }

    #[test]
    fn an_exceeded_limit_is_reported_once() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        schedule.take_due(now + INTERVAL);
        let told = schedule.measured(now, now, Measurement::Exceeded(ExceededLimit::Disk));
        assert_eq!((told, schedule.due()), (Some(ExceededLimit::Disk), None));
    }

    #[test]
    fn failed_measurements_end_the_request_after_a_while() {
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
    fn one_slow_failed_measurement_does_not_end_the_request() {
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
    fn a_successful_measurement_resets_the_failures() {
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
