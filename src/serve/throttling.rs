//! Tells when the limit of the processor stops the container.

use std::collections::VecDeque;

use tracing::warn;

use crate::container::{Bound, CpuPeriods};

/// Counts that are compared: those of a minute.
const COUNTS: usize = 12;

/// Fewest periods that tell something: ten seconds.
const LEAST: u64 = 100;

/// Parts of the periods, as divisors, from which on it is told, and below which it may be
/// told again.
const MUCH: u64 = 2;
const LITTLE: u64 = 4;

/// Watches how often the container is stopped.
#[derive(Debug, Default)]
pub(super) struct Throttling {
    /// The last counts, the newest at the end.
    counts: VecDeque<CpuPeriods>,
    is_told: bool,
}

impl Throttling {
    /// Takes the newest count, and warns once when the limit stops the container often.
    pub(super) fn follow(&mut self, now: CpuPeriods, limit: &Bound) {
        let Some(CpuPeriods { all, throttled }) = self.much(now) else { return };
        warn!(
            limit = format!("{}m", limit.amount),
            periods = all,
            throttled,
            reason = "requests take longer, and those that miss Argo CD's deadline get no \
                      explanation: raise resources.limits.cpu, or lower --max-requests",
            "the container's CPU limit stops it often"
        );
    }

    /// Periods in which it was stopped, if these are many and not told yet.
    fn much(&mut self, now: CpuPeriods) -> Option<CpuPeriods> {
        let first = self.counts.front().copied().unwrap_or(now);
        self.counts.push_back(now);
        if self.counts.len() > COUNTS {
            self.counts.pop_front();
        }
        let recent = now.since(first);
        if recent.throttled < recent.all / LITTLE {
            self.is_told = false;
        }
        let is_much = recent.all >= LEAST && recent.throttled >= recent.all / MUCH;
        let is_new = is_much && !self.is_told;
        self.is_told |= is_much;
        is_new.then_some(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_stops_are_told_and_each_time_once() {
        let mut throttling = Throttling::default();
        let mut now = CpuPeriods { all: 7_000, throttled: 6_000 };
        let mut told = |all, throttled| {
            now = CpuPeriods { all: now.all + all, throttled: now.throttled + throttled };
            throttling.much(now)
        };
        assert_eq!(told(0, 0), None, "those before the start do not count");
        assert_eq!(told(50, 50), None, "too few");
        assert_eq!(told(50, 10), Some(CpuPeriods { all: 100, throttled: 60 }));
        assert_eq!(told(50, 50), None, "it is told");
        for _ in 0..COUNTS {
            assert_eq!(told(50, 0), None);
        }
        let again = (0..COUNTS).filter_map(|_| told(50, 50));
        assert_eq!(again.count(), 1);
    }
}
