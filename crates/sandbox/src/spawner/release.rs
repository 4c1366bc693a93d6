//! The steps of a lease's release. Pure.

use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// Pauses between two attempts to end a lease.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(15));

/// Longest time that workers may take to end after SIGKILL before the lease is
/// quarantined. They end within milliseconds unless the kernel is stuck or the
/// container's share of the processor is small.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// The release of one lease. It goes on until nothing of the lease is left.
#[derive(Debug)]
pub(super) struct Release {
    phase: Phase,
    /// Attempts that failed.
    failures: u32,
    is_quarantined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// SIGTERM was sent. SIGKILL follows at this time.
    Stopping(Instant),
    /// SIGKILL was sent at this time.
    Killing(Instant),
    /// Neither processes nor files are left since this time.
    Done(Instant),
}

/// Next step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// Send SIGTERM to all processes and wait until then.
    Stop(Instant),
    /// Send SIGKILL to the workers, and let a process of the reserve kill all
    /// others and remove the files.
    End,
    /// Wait until then, and continue with [`ReleaseStep::End`].
    Wait(Instant),
    /// Make the slot free.
    Free,
}

/// Result of an attempt to end a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Neither processes nor files are left.
    Nothing,
    /// Processes are left.
    Processes,
    /// Files are left.
    Files,
    /// The attempt failed without a result, for example because no process
    /// could be created.
    Unknown,
}

impl Release {
    /// Starts a release. `has_run` means that a worker was started.
    pub(super) fn begin(now: Instant, grace: Duration, has_run: bool) -> (Self, ReleaseStep) {
        let new = |phase| Self { phase, failures: 0, is_quarantined: false };
        if !has_run {
            return (new(Phase::Done(now)), ReleaseStep::Free);
        }
        if grace.is_zero() {
            return (new(Phase::Killing(now)), ReleaseStep::End);
        }
        (new(Phase::Stopping(now + grace)), ReleaseStep::Stop(now + grace))
    }

    /// Next step when all processes have ended after SIGTERM, or SIGTERM could
    /// not be sent.
    pub(super) fn stopped(&mut self, now: Instant) -> ReleaseStep {
        self.phase = Phase::Killing(now);
        ReleaseStep::End
    }

    /// Next step after an attempt to end the lease.
    pub(super) fn ended(&mut self, now: Instant, found: Remaining) -> ReleaseStep {
        if found == Remaining::Nothing {
            self.phase = Phase::Done(now);
            return ReleaseStep::Free;
        }
        if matches!(self.phase, Phase::Done(_)) {
            self.phase = Phase::Killing(now);
        }
        let pause = AGAIN.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        ReleaseStep::Wait(now + pause)
    }

    /// Next step after [`ReleaseStep::Stop`] or [`ReleaseStep::Wait`].
    pub(super) fn waited(&mut self, now: Instant) -> ReleaseStep {
        match self.phase {
            Phase::Stopping(_) => self.stopped(now),
            Phase::Killing(_) => ReleaseStep::End,
            Phase::Done(_) => ReleaseStep::Free,
        }
    }

    /// Returns true if SIGTERM was sent and the grace is not over.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping(_))
    }

    /// Returns true if workers, or the processes that kill, should have ended long ago.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Killing(since) | Phase::Done(since)
            if now - since > WORKER_PATIENCE)
    }

    /// Returns true for so long after SIGKILL, while no attempt to end the lease has
    /// failed.
    pub(super) fn is_new(&self, now: Instant, time: Duration) -> bool {
        matches!(self.phase, Phase::Killing(since) if now < since + time) && self.is_first()
    }

    /// Returns true until an attempt to end the lease has failed.
    pub(super) fn is_first(&self) -> bool {
        self.failures == 0
    }

    /// Marks the lease as quarantined. Returns false if it already is.
    pub(super) fn quarantine(&mut self) -> bool {
        !std::mem::replace(&mut self.is_quarantined, true)
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.is_quarantined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn a_lease_in_which_nothing_ran_is_free_at_once() {
        assert_eq!(Release::begin(Instant::now(), GRACE, false).1, ReleaseStep::Free);
    }

    #[test]
    fn a_lease_without_grace_is_ended_at_once() {
        let now = Instant::now();
        let (mut release, step) = Release::begin(now, Duration::ZERO, true);
        assert_eq!(step, ReleaseStep::End);
        assert_eq!(release.ended(now, Remaining::Nothing), ReleaseStep::Free);
    }

    #[test]
    fn a_lease_with_grace_gets_sigterm_and_then_sigkill() {
        let now = Instant::now();
        let (mut release, step) = Release::begin(now, GRACE, true);
        assert_eq!(step, ReleaseStep::Stop(now + GRACE));
        assert!(release.is_stopping());
        assert_eq!(release.waited(now + GRACE), ReleaseStep::End);
        assert!(!release.is_stopping());
    }

    #[test]
    fn attempts_are_repeated_for_ever_with_growing_pauses() {
        let now = Instant::now();
        for found in [Remaining::Processes, Remaining::Files, Remaining::Unknown] {
            let (mut release, _) = Release::begin(now, Duration::ZERO, true);
            let mut pauses = Vec::new();
            for _ in 0..40 {
                let ReleaseStep::Wait(until) = release.ended(now, found) else { panic!() };
                assert_eq!(release.waited(until), ReleaseStep::End);
                pauses.push(until - now);
            }
            assert!(pauses.is_sorted() && pauses[0] < pauses[5], "{pauses:?}");
            assert_eq!(pauses[39], Duration::from_secs(15));
            assert_eq!(release.ended(now, Remaining::Nothing), ReleaseStep::Free);
        }
    }

    #[test]
    fn a_directory_that_is_not_empty_after_all_is_emptied_again() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, Duration::ZERO, true);
        assert_eq!(release.ended(now, Remaining::Nothing), ReleaseStep::Free);
        let ReleaseStep::Wait(until) = release.ended(now, Remaining::Files) else { panic!() };
        assert_eq!(release.waited(until), ReleaseStep::End);
    }

    #[test]
    fn a_quarantine_begins_once() {
        let (mut release, _) = Release::begin(Instant::now(), GRACE, true);
        assert!(release.quarantine() && !release.quarantine() && release.is_quarantined());
    }

    #[test]
    fn a_release_is_new_until_a_time_has_passed_or_an_attempt_has_failed() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, Duration::ZERO, true);
        assert!(release.is_new(now, GRACE) && !release.is_new(now + GRACE, GRACE));
        release.ended(now, Remaining::Unknown);
        assert!(!release.is_new(now, GRACE));
    }

    #[test]
    fn workers_that_survive_sigkill_are_overdue() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, GRACE, true);
        assert!(!release.is_overdue(now + GRACE * 2), "not killed yet");
        release.waited(now + GRACE);
        assert!(release.is_overdue(now + GRACE + WORKER_PATIENCE * 2));
    }

    #[test]
    fn killers_that_outlive_their_lease_are_overdue() {
        let now = Instant::now();
        let (mut release, _) = Release::begin(now, Duration::ZERO, true);
        let end = now + WORKER_PATIENCE * 2;
        release.ended(end, Remaining::Nothing);
        assert!(!release.is_overdue(end + WORKER_PATIENCE / 2));
        assert!(release.is_overdue(end + WORKER_PATIENCE * 2));
    }
}
