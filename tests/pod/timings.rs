//! Durations and failures of many calls.

use std::{fmt, time::Duration};

/// Kept failures; one says as much as a hundred.
const KEPT: usize = 5;

/// The calls of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timings {
    took: Vec<Duration>,
    pub(crate) failures: usize,
    /// The first failures.
    pub(crate) reasons: Vec<String>,
}

impl Timings {
    pub(crate) fn add(&mut self, took: Duration, result: Result<(), String>) {
        self.took.push(took);
        if let Err(reason) = result {
            self.failures += 1;
            if self.reasons.len() < KEPT {
                self.reasons.push(format!("after {took:.1?}: {reason}"));
            }
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.took.len()
    }

    /// The time that this percentage of the calls did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(crate) fn max(&self) -> Duration {
        self.percentile(100)
    }
}

impl fmt::Display for Timings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        let (calls, max, failures) = (self.calls(), self.max(), self.failures);
        write!(
            formatter,
            "{calls} calls, {failures} failed, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}"
        )
    }
}
