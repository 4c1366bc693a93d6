//! How a lease comes to its end: which step follows which.

use std::time::{Duration, Instant};

/// How long a user's processes may outlast SIGKILL before its lease is
/// quarantined. They are gone in milliseconds unless the kernel is stuck.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at processes that were asked to end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time a killed process usually needs to be gone.
const DYING: Duration = Duration::from_millis(1);

/// Time between two rounds of SIGKILL.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// A lease that is being taken back.
#[derive(Debug)]
pub(super) struct Ending {
    /// Until when processes may end on their own.
    grace: Instant,
    /// When SIGKILL was first sent.
    killed: Option<Instant>,
}

/// What is to be done next with an ending lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) enum Found {
    /// Neither processes nor files.
    Nothing,
    /// Processes, so that files were not touched.
    Processes,
    /// Files that could not be removed.
    Files,
}

impl Ending {
    /// Begins to take a lease back; `busy` when something of it may run: a
    /// worker, or what a command left behind.
    pub(super) fn begin(now: Instant, grace: Duration, busy: bool) -> (Self, Step) {
        let mut ending = Self { grace: now + grace, killed: None };
        let step = match busy {
            true if grace.is_zero() => ending.kill(now),
            true => Step::Stop,
            // Nothing of the tenant's ran. Otherwise a cleaner kills first: as
            // the tenant's user it could meet whatever that user likes to do.
            false => Step::Clean,
        };
        (ending, step)
    }

    /// The signal of [`Step::Stop`] or [`Step::Kill`] was sent.
    pub(super) fn signalled(&self, now: Instant) -> Step {
        if self.killed.is_some() { Step::Clean } else { Step::Wait(now + LOOK_AGAIN) }
    }

    /// Cleaning came to an end.
    pub(super) fn cleaned(&mut self, now: Instant, found: Found) -> Step {
        match (found, self.killed) {
            (Found::Nothing, _) => Step::Free,
            (Found::Files, _) => Step::Quarantine,
            (Found::Processes, None) if now < self.grace => Step::Wait(now + LOOK_AGAIN),
            (Found::Processes, None) => self.kill(now),
            (Found::Processes, Some(first)) => match now - first {
                since if since > KILL_PATIENCE => Step::Quarantine,
                since if since < LOOK_AGAIN => Step::Wait(now + DYING),
                _ => Step::Wait(now + KILL_AGAIN),
            },
        }
    }

    /// The time of a [`Step::Wait`] has come.
    pub(super) fn waited(&self, now: Instant) -> Step {
        match self.killed {
            Some(first) if now - first >= KILL_AGAIN => Step::Kill,
            _ => Step::Clean,
        }
    }

    /// Whether whatever is left is to be killed.
    pub(super) fn is_final(&self) -> bool {
        self.killed.is_some()
    }

    fn kill(&mut self, now: Instant) -> Step {
        self.killed.get_or_insert(now);
        Step::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn an_idle_lease_is_cleaned_at_once() {
        let now = Instant::now();
        let (mut ending, step) = Ending::begin(now, GRACE, false);
        assert_eq!(step, Step::Clean);
        assert_eq!(ending.cleaned(now, Found::Nothing), Step::Free);
    }

    #[test]
    fn a_busy_lease_without_grace_is_killed_at_once() {
        assert_eq!(Ending::begin(Instant::now(), Duration::ZERO, true).1, Step::Kill);
    }

    #[test]
    fn a_busy_lease_with_grace_is_asked_and_then_killed() {
        let now = Instant::now();
        let (mut ending, step) = Ending::begin(now, GRACE, true);
        assert_eq!(step, Step::Stop);
        assert_eq!(ending.signalled(now), Step::Wait(now + LOOK_AGAIN));
        assert_eq!(ending.cleaned(now, Found::Processes), Step::Wait(now + LOOK_AGAIN));
        assert_eq!(ending.cleaned(now + GRACE, Found::Processes), Step::Kill);
        assert_eq!(ending.signalled(now + GRACE), Step::Clean);
    }

    #[test]
    fn what_survives_being_killed_is_quarantined() {
        let now = Instant::now();
        let (mut ending, _) = Ending::begin(now, Duration::ZERO, true);
        let next = now + 2 * KILL_AGAIN;
        assert_eq!(ending.cleaned(now + KILL_AGAIN, Found::Processes), Step::Wait(next));
        assert_eq!(ending.waited(next), Step::Kill);
        let late = now + KILL_PATIENCE + LOOK_AGAIN;
        assert_eq!(ending.cleaned(late, Found::Processes), Step::Quarantine);
    }

    #[test]
    fn files_that_stay_are_quarantined() {
        let now = Instant::now();
        let (mut ending, _) = Ending::begin(now, GRACE, false);
        assert_eq!(ending.cleaned(now, Found::Files), Step::Quarantine);
    }
}
