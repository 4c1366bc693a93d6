//! Decides when the priority of a request is lowered. Pure.

use std::time::{Duration, Instant};

/// CPU time after which a request is lowered.
const MUCH: Duration = Duration::from_secs(1);

/// A request with this many running threads for each processor is lowered at
/// once.
const CROWD: u64 = 16;

/// Times that a request is lowered. A process that is being created may be missed
/// once; later ones inherit the priority.
const TIMES: u32 = 3;

/// Time between them.
const PAUSE: Duration = Duration::from_millis(500);

/// Demand for processors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) processors: u64,
    /// CPU time of the request, and its threads that run or could run.
    pub(super) cpu: Duration,
    pub(super) running: u64,
    /// Other requests have threads that run or could run.
    pub(super) has_others: bool,
}

impl Demand {
    /// Returns true if the request has far more running threads than there are
    /// processors.
    pub(super) fn is_crowd(&self) -> bool {
        self.running > self.processors * CROWD
    }
}

/// State of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Priority {
    times: u32,
    last: Option<Instant>,
}

impl Priority {
    /// A new worker begins with the usual priority.
    pub(super) fn raised(&mut self) {
        self.times = 0;
    }

    /// The request could not be lowered, so this time does not count.
    pub(super) fn missed(&mut self) {
        self.times = self.times.saturating_sub(1);
    }

    /// Lowers the request if it has used much CPU time, or has many processes,
    /// while others want the processors.
    pub(super) fn take_due(&mut self, demand: &Demand, now: Instant) -> bool {
        let is_wanted =
            demand.running > demand.processors || (demand.has_others && demand.running > 0);
        let is_much = demand.cpu >= MUCH || demand.is_crowd();
        let is_due = is_wanted && is_much && self.is_due(now);
        if is_due {
            self.times += 1;
            self.last = Some(now);
        }
        is_due
    }

    fn is_due(&self, now: Instant) -> bool {
        self.times < TIMES && self.last.is_none_or(|last| now >= last + PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lowered(cpu: Duration, running: u64, has_others: bool) -> bool {
        let demand = Demand { processors: 2, cpu, running, has_others };
        Priority::default().take_due(&demand, Instant::now())
    }

    #[test]
    fn only_much_use_that_others_feel_is_lowered() {
        let little = MUCH / 2;
        assert!(!is_lowered(MUCH, 2, false), "alone");
        assert!(is_lowered(MUCH, 1, true) && is_lowered(MUCH, 3, false));
        assert!(!is_lowered(little, 32, true));
        assert!(is_lowered(little, 33, false), "a crowd");
        assert!(!is_lowered(MUCH, 0, true), "it waits");
    }

    #[test]
    fn a_request_is_lowered_a_few_times_for_each_worker() {
        let mut priority = Priority::default();
        let demand = Demand { processors: 1, cpu: MUCH, running: 2, has_others: false };
        let now = Instant::now();
        assert!(priority.take_due(&demand, now));
        assert!(!priority.take_due(&demand, now), "not at once again");
        let lowered = (1..10).filter(|time| priority.take_due(&demand, now + PAUSE * *time));
        assert_eq!(u32::try_from(lowered.count()), Ok(TIMES - 1));
        priority.raised();
        assert!(priority.take_due(&demand, now + PAUSE * 10));
    }

    #[test]
    fn a_request_that_cannot_be_lowered_is_lowered_later() {
        let mut priority = Priority::default();
        let demand = Demand { processors: 1, cpu: MUCH, running: 2, has_others: false };
        let now = Instant::now();
        for time in 0..2 * TIMES {
            assert!(priority.take_due(&demand, now + PAUSE * time));
            priority.missed();
        }
        assert!(!priority.take_due(&demand, now + PAUSE * (2 * TIMES - 1)), "not at once again");
    }
}
