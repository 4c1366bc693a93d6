//! How long a directory that was emptied is not believed.

use std::time::{Duration, Instant};

/// Keeps the last good definitions for a while when all files are gone.
///
/// A ConfigMap that is mounted as optional and then deleted, or a mistake of
/// whatever writes it, looks the same as the wish to have no plugin at all.
#[derive(Debug)]
pub(super) struct Grace {
    limit: Duration,
    since: Option<Instant>,
}

/// What to make of a list of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Take it as it is.
    Believe,
    /// Keep what there was, for as long as this.
    Wait(Duration),
}

impl Grace {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Judges a list that has nothing in it although something is served, or
    /// any other.
    pub(super) fn judge(&mut self, is_emptied: bool, now: Instant) -> Verdict {
        if !is_emptied {
            self.since = None;
            return Verdict::Believe;
        }
        let since = *self.since.get_or_insert(now);
        match self.limit.checked_sub(now.saturating_duration_since(since)) {
            Some(left) if !left.is_zero() => Verdict::Wait(left),
            _ => Verdict::Believe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn an_emptied_directory_is_believed_after_its_grace() {
        let (mut grace, start) = (Grace::new(LIMIT), Instant::now());
        assert_eq!(grace.judge(true, start), Verdict::Wait(LIMIT));
        let later = start + LIMIT / 2;
        assert_eq!(grace.judge(true, later), Verdict::Wait(LIMIT / 2));
        assert_eq!(grace.judge(true, start + LIMIT), Verdict::Believe);
    }

    #[test]
    fn every_emptying_has_a_grace_of_its_own() {
        let (mut grace, start) = (Grace::new(LIMIT), Instant::now());
        grace.judge(true, start);
        assert_eq!(grace.judge(false, start + LIMIT), Verdict::Believe);
        assert_eq!(grace.judge(true, start + 2 * LIMIT), Verdict::Wait(LIMIT));
    }

    #[test]
    fn without_a_grace_an_emptied_directory_is_believed_at_once() {
        assert_eq!(Grace::new(Duration::ZERO).judge(true, Instant::now()), Verdict::Believe);
    }
}
