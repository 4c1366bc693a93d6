//! The steps of a lease's release. Pure.

use std::time::{Duration, Instant};

/// Longest time that processes may survive SIGKILL before their slot is
/// quarantined. They end within milliseconds unless the kernel is stuck.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Time between two checks after SIGTERM.
const CHECK_AGAIN: Duration = Duration::from_millis(20);

/// Time in which a killed process usually ends.
const DYING: Duration = Duration::from_millis(1);

/// Time between two rounds of SIGKILL.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// The release of one lease.
#[derive(Debug)]
pub(super) struct Release {
    /// End of the time between SIGTERM and SIGKILL.
    grace: Instant,
    /// Time of the first SIGKILL.
    killed: Option<Instant>,
}

/// Next step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// Send SIGTERM to all processes.
    Stop,
    /// Start to send SIGKILL to all processes.
    Kill,
    /// Start a cleaner. It repeats SIGKILL if that was sent before, and removes
    /// files if no process is left.
    Clean,
    /// Wait until then, and continue with [`ReleaseStep::Clean`] or
    /// [`ReleaseStep::Kill`].
    Wait(Instant),
    /// Make the slot free.
    Free,
    /// Never use the slot again.
    Quarantine,
}

/// Leftovers that a cleaner found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Neither processes nor files.
    Nothing,
    /// Processes, so files were not removed.
    Processes,
    /// Files that could not be removed.
    Files,
}

impl Release {
    /// Starts a release. `busy` means that a worker or leftovers of a command
    /// may run.
    pub(super) fn begin(now: Instant, grace: Duration, busy: bool) -> (Self, ReleaseStep) {
        let mut release = Self { grace: now + grace, killed: None };
        let step = match busy {
            true if grace.is_zero() => release.kill(now),
            true => ReleaseStep::Stop,
            // Nothing of the tenant ran. Otherwise a killer comes first,
            // because the tenant's processes could attack a cleaner, which has
            // their UID.
            false => ReleaseStep::Clean,
        };
        (release, step)
    }

    /// Next step after the signal of [`ReleaseStep::Stop`] or
    /// [`ReleaseStep::Kill`].
    pub(super) fn signalled(&self, now: Instant) -> ReleaseStep {
        if self.killed.is_some() {
            ReleaseStep::Clean
        } else {
            ReleaseStep::Wait(now + CHECK_AGAIN)
        }
    }

    /// Next step after a cleaner has ended.
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

    /// Next step after [`ReleaseStep::Wait`].
    pub(super) fn waited(&self, now: Instant) -> ReleaseStep {
        match self.killed {
            Some(first) if now - first >= KILL_AGAIN => ReleaseStep::Kill,
            _ => ReleaseStep::Clean,
        }
    }

    /// Returns true if SIGKILL has been sent.
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
    fn an_unused_lease_is_cleaned_at_once() {
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
    fn a_busy_lease_with_grace_gets_sigterm_and_then_sigkill() {
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
    fn processes_that_survive_sigkill_cause_quarantine() {
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
    fn files_that_cannot_be_removed_cause_quarantine() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, GRACE, false);
        assert_eq!(release.cleaned(now, Remaining::Files), ReleaseStep::Quarantine);
    }
}
