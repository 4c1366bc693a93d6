//! Releases leases, step by step.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    sys::signal::Signal,
    unistd::{UnlinkatFlags, unlinkat},
};

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        duty::Duty,
        end_duty::{Ending, HandOver, Owner},
        end_report::{EndReport, EnderSocket},
        release::{Release, ReleaseStep, Remaining},
        reserve::Ordered,
        slot::LeaseRecord,
        turns::Ended,
    },
    wire::{message::SpawnerEvent, quarantine::Quarantined},
};

/// Time after which the end of a killer is checked again.
const AFTER_SIGNAL: Duration = Duration::from_millis(1);

/// Time between two rounds of SIGKILL to workers.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// Longest wait for a worker whose command has ended by itself. In namespaces, the
/// command's end is known before that of the processes around it.
const WORKER_END: Duration = Duration::from_millis(20);

/// Files whose directories were changed this long before a lease may still
/// belong to it, because clocks of file systems are coarse.
const CLOCK_MARGIN: Duration = Duration::from_secs(2);

impl Leases {
    pub(super) fn step(&mut self, index: usize, next: impl FnOnce(&mut Release) -> ReleaseStep) {
        if let Some(release) = self.slots.release_mut(index) {
            let step = next(release);
            self.take(index, step);
        }
    }

    pub(super) fn take(&mut self, index: usize, step: ReleaseStep) {
        match step {
            ReleaseStep::Stop(until) => {
                self.slots.set_wake(index, until);
                let grace = until.saturating_duration_since(Instant::now());
                self.signal_stop(index, grace);
            }
            ReleaseStep::End => self.end(index),
            ReleaseStep::Wait(until) => self.slots.set_wake(index, until),
            ReleaseStep::Free => self.free(index),
        }
    }

    /// Wakes the slot unless it has time to end and workers, or processes of its UIDs, may use it.
    pub(super) fn wake_without_workers(&mut self, index: usize) {
        let has_uids = self.slots.uids(index).is_some();
        let has_workers =
            self.slots.any_lease_mut(index).is_some_and(|lease| !lease.workers.is_empty());
        let is_stopping =
            self.slots.release_mut(index).is_some_and(|release| release.is_stopping());
        // After SIGTERM, orphans of workers may still run. A guard ends last,
        // and a helper reports the end of all processes of a UID.
        if !is_stopping || !(has_uids || has_workers) {
            self.slots.wake_by(index, Instant::now());
        }
    }

    /// Kills the workers. If nothing else of the tenant runs, the cleaner removes the
    /// files. Otherwise, a process of the reserve kills the other processes and removes
    /// them.
    fn end(&mut self, index: usize) {
        self.order_workers(index, Signal::SIGKILL);
        let now = Instant::now();
        let has_uids = self.slots.uids(index).is_some();
        let pids = self.slots.any_lease_mut(index).map(|lease| {
            lease.workers.keys().map(|pid| pid.as_raw().unsigned_abs()).collect::<Vec<_>>()
        });
        let Some(pids) = pids else { return };
        if !pids.is_empty() {
            if self.ends_by_itself(index, now) {
                return self.slots.set_wake(index, now + WORKER_END);
            }
            self.slots.set_wake(index, now + KILL_AGAIN);
            if self.slots.release_mut(index).is_some_and(|release| release.is_overdue(now)) {
                self.quarantine(index, Some(&EndReport::Processes(pids)));
            }
            if !has_uids {
                return;
            }
        } else if self.is_sweeping(index) {
            // Two killers of one lease could kill each other.
            return self.await_killers(index, now);
        }
        if self.has_ender(index) || self.cleaner.works_on(index) || self.clean(index) {
            return;
        }
        match self.order_end(index) {
            Ok(Ordered { pid, socket }) => {
                self.children.insert(
                    pid,
                    ChildRole::Ender {
                        ended: Ended::Lease(index),
                        socket: EnderSocket::new(socket),
                        left: None,
                    },
                );
            }
            Err(_refused) => {
                self.turns.end(Ended::Lease(index));
                self.step(index, |release| release.ended(now, Remaining::Unknown));
            }
        }
    }

    /// Waits for the processes that signal those of a lease. They take milliseconds unless
    /// somebody has stopped them.
    fn await_killers(&mut self, index: usize, now: Instant) {
        let is_overdue =
            self.slots.release_mut(index).is_some_and(|release| release.is_overdue(now));
        if !is_overdue {
            return self.slots.set_wake(index, now + AFTER_SIGNAL);
        }
        // The stop was not told if it happened before they got their order, or under a
        // debugger.
        self.resume_stopped();
        let killers = self.signalling(index).map(|pid| pid.as_raw().unsigned_abs()).collect();
        self.quarantine(index, Some(&EndReport::Processes(killers)));
        self.slots.set_wake(index, now + KILL_AGAIN);
    }

    /// Returns true if the last command ended by itself, and its worker just now does.
    fn ends_by_itself(&mut self, index: usize, now: Instant) -> bool {
        let is_new =
            self.slots.release_mut(index).is_some_and(|release| release.is_new(now, WORKER_END));
        is_new && self.slots.any_lease_mut(index).is_some_and(|lease| !lease.is_cut_off)
    }

    /// Gives the order to end a lease to a process of the reserve.
    fn order_end(&mut self, index: usize) -> std::io::Result<Ordered> {
        // The directory may have been closed by a tenant with the same UID. The
        // process reports what remains.
        let _ = self.prepared.root.reopen();
        let uids = self.slots.uids(index);
        let Some(lease) = self.slots.any_lease_mut(index) else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        let has_turn = lease.workers.is_empty() && self.turns.take(Ended::Lease(index));
        let caches = &mut self.prepared.caches;
        let measure =
            lease.shared.as_ref().is_some_and(|shared| caches.take_due(shared, Instant::now()));
        let duty = Duty::end(Ending {
            owner: uids.map_or(Owner::Spawner, Owner::Leased),
            workspace: &lease.workspace,
            has_turn,
            process_check: self.prepared.process_check,
            caches: hand_over(lease, measure),
        });
        let is_promised = std::mem::take(&mut lease.has_promise);
        let root = self.prepared.root.directory.as_fd();
        let kit = self.prepared.kit(self.fork);
        if !is_promised {
            return self.reserve.spare(&duty, root, kit);
        }
        let ordered = self.reserve.redeem(&duty, root, kit);
        if ordered.is_err()
            && let Some(lease) = self.slots.any_lease_mut(index)
        {
            lease.has_promise = true;
        }
        ordered
    }

    /// Handles the end of a process that ended a lease or removed a directory
    /// of an earlier spawner.
    pub(super) fn ended(&mut self, ended: Ended, found: Remaining, left: Option<&EndReport>) {
        let now = Instant::now();
        let slot = match ended {
            Ended::Lease(slot) => slot,
            Ended::Stale(index) => return self.stale_ended(index, found, now),
        };
        if matches!(found, Remaining::Processes | Remaining::Files) {
            self.quarantine(slot, left);
        }
        self.step(slot, |release| release.ended(now, found));
    }

    /// Reports once that a lease cannot be ended now.
    fn quarantine(&mut self, index: usize, left: Option<&EndReport>) {
        let uid = self.slots.uids(index).map(|pair| pair.tenant.as_raw());
        let is_new = self.slots.release_mut(index).is_some_and(Release::quarantine);
        let Some(lease) = self.slots.any_lease_mut(index).filter(|_| is_new) else { return };
        let (processes, errno) = match left {
            Some(EndReport::Processes(pids)) => (pids.clone(), 0),
            Some(EndReport::Files(errno)) => (Vec::new(), *errno),
            Some(EndReport::Waiting) | None => (Vec::new(), 0),
        };
        let (lease, workspace) = (lease.id, lease.workspace.clone());
        let event = Quarantined { lease, uid, processes, errno, workspace };
        self.reports.push(SpawnerEvent::Quarantined(event));
    }

    /// Returns true if a process works on the end of the lease.
    pub(super) fn has_ender(&self, index: usize) -> bool {
        let lease = Ended::Lease(index);
        let ends =
            |child: &ChildRole| matches!(child, ChildRole::Ender { ended, .. } if *ended == lease);
        self.children.values().any(ends)
    }

    fn free(&mut self, index: usize) {
        let now = Instant::now();
        // The signal of a killer that still runs could hit the UID's next
        // tenant.
        if self.is_signalling(index) {
            return self.await_killers(index, now);
        }
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        let (id, name, has_promise) = (lease.id, lease.workspace.clone(), lease.has_promise);
        let lease_caches = lease.shared.clone();
        if let Err(errno) = self.remove_directory(&name) {
            self.quarantine(index, Some(&EndReport::Files(errno as i32)));
            return self.step(index, |release| release.ended(now, Remaining::Files));
        }
        self.remove_cgroup(index);
        if has_promise {
            self.reserve.forgo();
        }
        if let Some(shared) = lease_caches {
            self.prepared.caches.leave(&shared);
        }
        self.slots.end(index, now);
        self.reports.push(SpawnerEvent::Released(id));
    }

    /// Removes the empty directory of a workspace. Tenants lack the right to
    /// write to its parent.
    pub(super) fn remove_directory(&self, name: &str) -> Result<(), Errno> {
        let root = &self.prepared.root.directory;
        match unlinkat(root, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The caches of a lease.
fn hand_over(lease: &LeaseRecord, measure: bool) -> Option<HandOver> {
    let shared = lease.shared.clone()?;
    let by_clock = SystemTime::now().duration_since(lease.since).unwrap_or_default();
    let has_jumped = by_clock.abs_diff(lease.began.elapsed()) > CLOCK_MARGIN;
    let since = (!has_jumped).then(|| lease.since.checked_sub(CLOCK_MARGIN)).flatten();
    let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
    let since_us = since.and_then(|since| u64::try_from(since.as_micros()).ok());
    Some(HandOver { shared: shared.into(), since_us, measure, is_whole: !lease.is_cut_off })
}
