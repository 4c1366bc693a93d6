//! How a lease comes to its end: which step follows which.

use std::time::{Duration, Instant};

/// How long a user's processes may outlast SIGKILL before its lease is
/// quarantined. They are gone in milliseconds unless the kernel is stuck.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at processes that were asked to end.
const CHECK_AGAIN: Duration = Duration::from_millis(20);

/// Time a killed process usually needs to be gone.
const DYING: Duration = Duration::from_millis(1);

/// Time between two rounds of SIGKILL.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// A lease that is being taken back.
#[derive(Debug)]
pub(super) struct Release {
    /// Until when processes may end on their own.
    grace: Instant,
    /// When SIGKILL was first sent.
    killed: Option<Instant>,
}

/// What is to be done next with an ending lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// Send SIGTERM to all its processes.
    Stop,
    /// Begin to send SIGKILL to all its processes.
    Kill,
    /// Send it once more, if it was sent, and remove its files if it has no
    /// processes.
    Clean,
    /// Do nothing until then, and clean.
    Wait(Instant),
    /// Give it back.
    Free,
    /// Never use it again.
    Quarantine,
}

/// What cleaning found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Neither processes nor files.
    Nothing,
    /// Processes, so that files were not touched.
    Processes,
    /// Files that could not be removed.
    Files,
}

impl Release {
    /// Begins to take a lease back; `busy` when something of it may run: a
    /// worker, or what a command left behind.
    pub(super) fn begin(now: Instant, grace: Duration, busy: bool) -> (Self, ReleaseStep) {
        let mut release = Self { grace: now + grace, killed: None };
        let step = match busy {
            true if grace.is_zero() => release.kill(now),
            true => ReleaseStep::Stop,
            // Nothing of the tenant's ran. Otherwise a cleaner kills first: as
            // the tenant's user it could meet whatever that user likes to do.
            false => ReleaseStep::Clean,
        };
        (release, step)
    }

    /// The signal of [`ReleaseStep::Stop`] or [`ReleaseStep::Kill`] was sent.
    pub(super) fn signalled(&self, now: Instant) -> ReleaseStep {
        if self.killed.is_some() {
            ReleaseStep::Clean
        } else {
            ReleaseStep::Wait(now + CHECK_AGAIN)
        }
    }

    /// Cleaning came to an end.
    pub(super) fn cleaned(&mut self, now: Instant, found: Remaining) -> ReleaseStep {
        match (found, self.killed) {
            (Remaining::Nothing, _) => ReleaseStep::Free,
            (Remaining::Files, _) => ReleaseStep::Quarantine,
            (Remaining::Processes, None) if now < self.grace => {
                ReleaseStep::Wait(now + CHECK_AGAIN)
            }
            (Remaining::Processes, None) => self.kill(now),
            (Remaining::Processes, Some(first)) => match now - first {
                since if since > KILL_PATIENCE => ReleaseStep::Quarantine,
                since if since < CHECK_AGAIN => ReleaseStep::Wait(now + DYING),
                _ => ReleaseStep::Wait(now + KILL_AGAIN),
            },
        }
    }

    /// The time of a [`ReleaseStep::Wait`] has come.
    pub(super) fn waited(&self, now: Instant) -> ReleaseStep {
        match self.killed {
            Some(first) if now - first >= KILL_AGAIN => ReleaseStep::Kill,
            _ => ReleaseStep::Clean,
        }
    }

    /// Whether whatever is left is to be killed.
    pub(super) fn is_final(&self) -> bool {
        self.killed.is_some()
    }

    fn kill(&mut self, now: Instant) -> ReleaseStep {
        self.killed.get_or_insert(now);
        ReleaseStep::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn an_idle_lease_is_cleaned_at_once() {
        let now = Instant::now();
        let (mut release, step) = Release::begin(now, GRACE, false);
        assert_eq!(step, ReleaseStep::Clean);
        assert_eq!(release.cleaned(now, Remaining::Nothing), ReleaseStep::Free);
    }

    #[test]
    fn a_busy_lease_without_grace_is_killed_at_once() {
        assert_eq!(Release::begin(Instant::now(), Duration::ZERO, true).1, ReleaseStep::Kill);
    }

    #[test]
    fn a_busy_lease_with_grace_is_asked_and_then_killed() {
        let now = Instant::now();
        let (mut release, step) = Release::begin(now, GRACE, true);
        assert_eq!(step, ReleaseStep::Stop);
        assert_eq!(release.signalled(now), ReleaseStep::Wait(now + CHECK_AGAIN));
        assert_eq!(
            release.cleaned(now, Remaining::Processes),
            ReleaseStep::Wait(now + CHECK_AGAIN)
        );
        assert_eq!(release.cleaned(now + GRACE, Remaining::Processes), ReleaseStep::Kill);
        assert_eq!(release.signalled(now + GRACE), ReleaseStep::Clean);
    }

    #[test]
    fn what_survives_being_killed_is_quarantined() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, Duration::ZERO, true);
        let next = now + 2 * KILL_AGAIN;
        assert_eq!(
            release.cleaned(now + KILL_AGAIN, Remaining::Processes),
            ReleaseStep::Wait(next)
        );
        assert_eq!(release.waited(next), ReleaseStep::Kill);
        let late = now + KILL_PATIENCE + CHECK_AGAIN;
        assert_eq!(release.cleaned(late, Remaining::Processes), ReleaseStep::Quarantine);
    }

    #[test]
    fn files_that_stay_are_quarantined() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, GRACE, false);
        assert_eq!(release.cleaned(now, Remaining::Files), ReleaseStep::Quarantine);
    }
}
