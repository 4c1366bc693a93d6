//! Keeps the last definitions for some time after all of them are gone.

use std::time::{Duration, Instant};

/// Decides how long the last definitions stay when no valid one is left.
///
/// An accident, such as a deleted optional ConfigMap or another one in its place,
/// looks the same as the intention to have no plugins.
#[derive(Debug)]
pub(super) struct Grace {
    limit: Duration,
    since: Option<Instant>,
}

/// Treatment of a set of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Use the set.
    Use,
    /// Keep the last definitions, for at most this time.
    Keep(Duration),
}

impl Grace {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Begins anew: nobody knows if a place that could not be read was still empty.
    pub(super) fn restart(&mut self) {
        self.since = None;
    }

    /// `is_emptied` is true if the new set is empty although plugins are served.
    pub(super) fn decide(&mut self, is_emptied: bool, now: Instant) -> Decision {
        if !is_emptied {
            self.since = None;
            return Decision::Use;
        }
        let since = *self.since.get_or_insert(now);
        match self.limit.checked_sub(now.saturating_duration_since(since)) {
            Some(left) if !left.is_zero() => Decision::Keep(left),
            _ => Decision::Use,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn an_empty_directory_is_used_after_the_grace_period() {
        let (mut grace, start) = (Grace::new(LIMIT), Instant::now());
        assert_eq!(grace.decide(true, start), Decision::Keep(LIMIT));
        let later = start + LIMIT / 2;
        assert_eq!(grace.decide(true, later), Decision::Keep(LIMIT / 2));
        assert_eq!(grace.decide(true, start + LIMIT), Decision::Use);
    }

    #[test]
    fn the_grace_period_starts_again_after_files_return() {
        let (mut grace, start) = (Grace::new(LIMIT), Instant::now());
        grace.decide(true, start);
        assert_eq!(grace.decide(false, start + LIMIT), Decision::Use);
        assert_eq!(grace.decide(true, start + 2 * LIMIT), Decision::Keep(LIMIT));
    }

    #[test]
    fn without_a_grace_period_an_empty_directory_is_used_at_once() {
        assert_eq!(Grace::new(Duration::ZERO).decide(true, Instant::now()), Decision::Use);
    }
}
