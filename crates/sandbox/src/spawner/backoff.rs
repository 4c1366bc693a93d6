//! Growing pauses between attempts.

use std::time::Duration;

/// Pauses that double from the first to the longest one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Pause after this many earlier pauses.
    pub(super) fn pause(self, earlier: u32) -> Duration {
        let factor = 2_u32.checked_pow(earlier).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(50));
        let pauses: Vec<_> = [0, 1, 2, 3, 99].map(|earlier| backoff.pause(earlier)).into();
        assert_eq!(pauses, [10, 20, 40, 50, 50].map(Duration::from_millis));
    }
}
