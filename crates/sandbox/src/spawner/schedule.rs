//! The times at which a request is measured, and the reaction to results. Pure.
//!
//! Only CPU time makes a request use more of anything, so it decides when the
//! next measurement is due. On a busy machine, a request uses less of it and
//! needs fewer measurements.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{meter::Measurement, tally::Progress};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// CPU time of a request between two measurements, and from its first command to
/// the first one. Most requests end earlier and need none.
const SPACING: Duration = Duration::from_millis(100);

/// The CPU time between two measurements is at least this many times as long as
/// that of a measurement.
const COST_FACTOR: u32 = 10;

/// Time from the first command to the first measurement, at the latest, and from
/// a measurement to the next one if the request has used any CPU time meanwhile.
/// It may have used a little, and wait now.
const FIRST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(1);

/// Time from a measurement to the next one if no CPU time was seen meanwhile: the kernel
/// counts in ticks of 10 ms, in which a request can write 20 MB.
const IDLE: Duration = Duration::from_secs(10);

/// CPU time of a request between two measurements if a limit may be near. It is at least
/// this many times as long as that of a measurement.
const NEAR_SPACING: Duration = Duration::from_millis(20);
const NEAR_COST_FACTOR: u32 = 2;

/// A request that could not be measured for this time in all, and in this many
/// measurements, has exceeded its limits. One good measurement does not make up
/// for the time before.
const MAX_BLIND: Duration = Duration::from_secs(5);
const MAX_BLIND_CPU: Duration = Duration::from_secs(2);
const MIN_FAILURES: u32 = 3;

/// Time between two measurements of a request that cannot be measured.
const BLIND_PAUSE: Duration = Duration::from_millis(250);

/// The measurements of one request, from its first command to its end.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: RequestLimits,
    phase: Phase,
    /// CPU time since the last measurement.
    spent: Duration,
    /// CPU time of the last measurement; `None` before the first one.
    cost: Option<Duration>,
    blind: Blind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Since this time.
    Waiting(Instant),
    Measuring,
    /// A limit was exceeded, which ends the measurements.
    Exceeded,
}

/// Time during which the request could not be measured.
#[derive(Clone, Copy, Debug, Default)]
struct Blind {
    since: Option<Instant>,
    /// The cause as of the last measurement.
    cause: ExceededLimit,
    earlier: Duration,
    cpu: Duration,
    failures: u32,
}

/// News about a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) now: Instant,
    pub(super) progress: Progress,
    /// Time since the last pass.
    pub(super) elapsed: Duration,
    /// A limit may be near or exceeded.
    pub(super) is_near: bool,
}

impl Schedule {
    /// Starts the schedule.
    pub(super) fn begin(now: Instant, limits: RequestLimits) -> Self {
        let (spent, cost) = (Duration::ZERO, None);
        Self { limits, phase: Phase::Waiting(now), spent, cost, blind: Blind::default() }
    }

    pub(super) fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// Returns true if the request has not exceeded a limit.
    pub(super) fn is_active(&self) -> bool {
        self.phase != Phase::Exceeded
    }

    /// Ends the measurements, because a limit is exceeded.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Exceeded;
    }

    /// Adds what a pass has found. Returns the limit to report, if any.
    pub(super) fn passed(&mut self, pass: &Pass) -> Option<ExceededLimit> {
        let Progress { cpu, has_changed } = pass.progress;
        let unseen = if has_changed { pass.elapsed } else { Duration::ZERO };
        let spent = cpu.max(unseen);
        self.spent += spent;
        if self.blind.since.is_some() {
            self.blind.cpu += cpu;
        }
        let is_reported = self.is_active() && self.blind.is_too_long(pass.now);
        is_reported.then(|| {
            self.end();
            self.blind.cause
        })
    }

    /// Starts a measurement if it is due. Returns the limits to check.
    pub(super) fn take_due(&mut self, pass: &Pass) -> Option<RequestLimits> {
        let Phase::Waiting(since) = self.phase else { return None };
        let is_blind = self.blind.since.is_some();
        let waits = pass.now.saturating_duration_since(since);
        let latest = match self.cost {
            None => FIRST,
            Some(_) if self.spent.is_zero() => IDLE,
            Some(_) => LATEST,
        };
        let is_due = self.spent >= self.spacing(pass)
            || (is_blind && waits >= BLIND_PAUSE)
            || waits >= latest;
        (is_due && self.limits.are_set()).then(|| {
            self.phase = Phase::Measuring;
            self.spent = Duration::ZERO;
            self.limits
        })
    }

    fn spacing(&self, pass: &Pass) -> Duration {
        let cost = self.cost.unwrap_or_default();
        if pass.is_near {
            NEAR_SPACING.max(cost * NEAR_COST_FACTOR)
        } else {
            SPACING.max(cost * COST_FACTOR)
        }
    }

    /// Tries a measurement again that could not start.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.phase = Phase::Waiting(now);
        self.spent = self.spacing(&Pass {
            now,
            progress: Progress::default(),
            elapsed: Duration::ZERO,
            is_near: false,
        });
    }

    /// Handles the result of a measurement that took this time, and `cost` of CPU time.
    /// Returns the limit to report, if any.
    pub(super) fn measured(
        &mut self,
        Range { start: began, end: now }: Range<Instant>,
        cost: Duration,
        found: Measurement,
    ) -> Option<ExceededLimit> {
        if !self.is_active() {
            return None;
        }
        self.cost = Some(cost);
        self.phase = Phase::Waiting(now);
        let excess = match found {
            Measurement::WithinLimits => {
                self.blind.ends(now);
                None
            }
            Measurement::Exceeded(excess) => Some(excess),
            Measurement::Unknown => self.unseen(began..now, ExceededLimit::Unmeasured),
            Measurement::Hidden => self.unseen(began..now, ExceededLimit::HiddenFiles),
        };
        if excess.is_some() {
            self.end();
        }
        excess
    }

    fn unseen(&mut self, time: Range<Instant>, cause: ExceededLimit) -> Option<ExceededLimit> {
        self.blind.goes_on(time.start, cause);
        self.blind.is_too_long(time.end).then_some(cause)
    }
}

impl Blind {
    fn goes_on(&mut self, began: Instant, cause: ExceededLimit) {
        self.failures += 1;
        self.cause = cause;
        self.since = self.since.or(Some(began));
    }

    fn ends(&mut self, now: Instant) {
        self.earlier = self.total(now);
        self.since = None;
    }

    fn total(&self, now: Instant) -> Duration {
        let current = self.since.map(|since| now.saturating_duration_since(since));
        self.earlier + current.unwrap_or_default()
    }

    fn is_too_long(&self, now: Instant) -> bool {
        let is_long = self.total(now) >= MAX_BLIND || self.cpu >= MAX_BLIND_CPU;
        self.since.is_some() && self.failures >= MIN_FAILURES && is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn schedule(now: Instant) -> Schedule {
        let limits = RequestLimits { memory: Some(1), ..RequestLimits::default() };
        Schedule::begin(now, limits)
    }

    fn pass(now: Instant, cpu: Duration) -> Pass {
        let progress = Progress { cpu, has_changed: false };
        Pass { now, progress, elapsed: Duration::ZERO, is_near: false }
    }

    /// Passes and returns true if a measurement begins.
    fn is_due(schedule: &mut Schedule, pass: &Pass) -> bool {
        assert_eq!(schedule.passed(pass), None);
        schedule.take_due(pass).is_some()
    }

    #[test]
    fn without_a_limit_nothing_is_measured() {
        let now = Instant::now();
        let limits = RequestLimits { file_size: Some(1), ..RequestLimits::default() };
        let mut schedule = Schedule::begin(now, limits);
        assert!(!is_due(&mut schedule, &pass(now, 10 * SPACING)));
    }

    #[test]
    fn cpu_time_makes_a_measurement_due() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        assert!(!is_due(&mut schedule, &pass(now, SPACING / 2)));
        assert!(is_due(&mut schedule, &pass(now, SPACING / 2)));
        assert!(!is_due(&mut schedule, &pass(now, SPACING)), "one measurement at a time");
    }

    #[test]
    fn a_request_that_seems_to_wait_is_measured_at_long_intervals() {
        let mut at = Instant::now();
        let mut schedule = schedule(at);
        for (cpu, latest) in [(0, FIRST), (0, IDLE), (1, LATEST), (0, IDLE)] {
            assert!(!is_due(&mut schedule, &pass(at, cpu * MILLISECOND)));
            at += latest.saturating_sub(MILLISECOND);
            assert!(!is_due(&mut schedule, &pass(at, Duration::ZERO)), "{latest:?}");
            at += MILLISECOND;
            assert!(is_due(&mut schedule, &pass(at, Duration::ZERO)), "{latest:?}");
            let found = Measurement::WithinLimits;
            assert_eq!(schedule.measured(at..at, MILLISECOND, found), None);
        }
    }

    #[test]
    fn processes_that_nobody_saw_may_have_used_all_the_time() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let progress = Progress { cpu: Duration::ZERO, has_changed: true };
        let pass = Pass { now, progress, elapsed: SPACING, is_near: false };
        assert!(is_due(&mut schedule, &pass));
    }

    #[test]
    fn a_measurement_that_costs_much_is_followed_by_a_long_pause() {
        let now = Instant::now();
        for (cost, pause) in [(MILLISECOND, SPACING), (50 * MILLISECOND, 500 * MILLISECOND)] {
            let mut schedule = schedule(now);
            assert!(is_due(&mut schedule, &pass(now, SPACING)));
            // The time that it took does not matter.
            let ended = now + Duration::from_secs(100);
            let found = Measurement::WithinLimits;
            assert_eq!(schedule.measured(now..ended, cost, found), None);
            assert!(!is_due(&mut schedule, &pass(ended, pause / 2)));
            assert!(is_due(&mut schedule, &pass(ended, pause / 2)));
        }
    }

    #[test]
    fn a_limit_that_may_be_near_is_checked_sooner() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let near = |cpu| Pass { is_near: true, ..pass(now, cpu) };
        assert!(is_due(&mut schedule, &near(NEAR_SPACING)));
        let found = Measurement::WithinLimits;
        assert_eq!(schedule.measured(now..now, 50 * MILLISECOND, found), None);
        assert!(!is_due(&mut schedule, &near(99 * MILLISECOND)));
        assert!(is_due(&mut schedule, &near(MILLISECOND)));
    }

    #[test]
    fn an_exceeded_limit_is_reported_once() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let found = Measurement::Exceeded(ExceededLimit::Disk);
        let mut measured = || schedule.measured(now..now, MILLISECOND, found);
        assert_eq!((measured(), measured()), (Some(ExceededLimit::Disk), None));
        assert!(!is_due(&mut schedule, &pass(now, SPACING)));
    }

    #[test]
    fn a_measurement_that_could_not_start_is_tried_again_at_the_next_pass() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        assert!(is_due(&mut schedule, &pass(now, SPACING)));
        schedule.postpone(now);
        assert!(is_due(&mut schedule, &pass(now, Duration::ZERO)));
    }

    /// Measures without success for `time`, every 250 ms. Returns the limit to
    /// report.
    fn hide(schedule: &mut Schedule, from: Instant, time: Duration) -> Option<ExceededLimit> {
        let mut at = from;
        while at < from + time {
            let told = schedule.measured(at..at, MILLISECOND, Measurement::Unknown);
            at += BLIND_PAUSE;
            if let Some(excess) = told.or(schedule.passed(&pass(at, Duration::ZERO))) {
                return Some(excess);
            }
            assert!(schedule.take_due(&pass(at, Duration::ZERO)).is_some());
        }
        None
    }

    #[test]
    fn a_good_measurement_does_not_make_up_for_the_time_before() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let part = Duration::from_secs(2);
        let mut at = now;
        for round in 0..2 {
            assert_eq!(hide(&mut schedule, at, part), None, "round {round}");
            at += part;
            let found = Measurement::WithinLimits;
            assert_eq!(schedule.measured(at..at, MILLISECOND, found), None);
            // Hours in which nothing is hidden do not count.
            at += Duration::from_hours(1);
        }
        assert_eq!(hide(&mut schedule, at, part), Some(ExceededLimit::Unmeasured));
    }

    #[test]
    fn much_cpu_time_while_hidden_ends_the_request_early() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        assert_eq!(hide(&mut schedule, now, Duration::from_secs(1)), None);
        let told = schedule.passed(&pass(now + Duration::from_secs(1), MAX_BLIND_CPU));
        assert_eq!(told, Some(ExceededLimit::Unmeasured));
    }

    #[test]
    fn the_last_cause_is_reported() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        for found in [Measurement::Unknown, Measurement::Unknown, Measurement::Hidden] {
            assert_eq!(schedule.measured(now..now, MILLISECOND, found), None);
        }
        let told = schedule.passed(&pass(now + MAX_BLIND, Duration::ZERO));
        assert_eq!(told, Some(ExceededLimit::HiddenFiles));
    }

    #[test]
    fn one_slow_failed_measurement_does_not_end_the_request() {
        let now = Instant::now();
        let mut schedule = schedule(now);
        let slow = now + 2 * MAX_BLIND;
        let mut fail = || schedule.measured(now..slow, MILLISECOND, Measurement::Unknown);
        assert_eq!([fail(), fail()], [None, None]);
        assert_eq!(fail(), Some(ExceededLimit::Unmeasured));
    }
}
