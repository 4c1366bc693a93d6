//! Releases leases, step by step.

use std::time::{Duration, Instant};

use nix::{
    errno::Errno,
    sys::signal::Signal,
    unistd::{UnlinkatFlags, unlinkat},
};

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        clean::{self, CleanTarget},
        release::{Release, ReleaseStep, Remaining},
    },
    wire::message::{Released, SpawnerEvent},
};

/// Time after which delivery of a signal is checked again.
const AFTER_SIGNAL: Duration = Duration::from_millis(1);

impl Leases {
    pub(super) fn step(&mut self, index: usize, next: impl FnOnce(&mut Release) -> ReleaseStep) {
        if let Some(release) = self.slots.release_mut(index) {
            let step = next(release);
            self.take(index, step);
        }
    }

    pub(super) fn take(&mut self, index: usize, step: ReleaseStep) {
        match step {
            ReleaseStep::Stop => self.signal(index, Signal::SIGTERM),
            ReleaseStep::Kill => self.kill(index),
            ReleaseStep::Clean => self.clean(index),
            ReleaseStep::Wait(until) => self.slots.set_wake(index, until),
            ReleaseStep::Free => self.end(index, false),
            ReleaseStep::Quarantine => self.end(index, true),
        }
    }

    /// Kills the workers. The cleaner then kills the tenant's other processes.
    pub(super) fn kill(&mut self, index: usize) {
        self.order_workers(index, Signal::SIGKILL);
        let now = Instant::now();
        self.step(index, |release| release.signalled(now));
    }

    pub(super) fn clean(&mut self, index: usize) {
        // A killer still runs. Its signal could hit the UID's next tenant.
        if self.is_signalling(index) {
            return self.slots.set_wake(index, Instant::now() + AFTER_SIGNAL);
        }
        let is_final = self.slots.release_mut(index).is_some_and(|release| release.is_final());
        let pair = self.slots.uids(index);
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        // A worker that was just forked still has the spawner's UID and could
        // create files after the cleanup. A guard ends last.
        let is_busy = !lease.workers.is_empty();
        let (root, name) = (&self.prepared.root.directory, lease.workspace.as_str());
        let target = CleanTarget {
            tenant: pair.map(|pair| pair.tenant),
            killer: pair.filter(|_| is_final).map(|pair| pair.killer),
            shared: lease.shared.as_ref(),
            process_check: self.prepared.process_check,
        };
        let clean = || clean::clean(root, name, &target);
        let cleaner = (!is_busy).then(|| self.fork.fork(clean));
        if let Some(Ok(pid)) = cleaner {
            self.children.insert(pid, ChildRole::Cleaner { slot: index });
        } else {
            // The workers still run, or fork failed: try again later.
            let now = Instant::now();
            self.step(index, |release| release.cleaned(now, Remaining::Processes));
        }
    }

    pub(super) fn is_cleaning(&self, index: usize) -> bool {
        let cleans =
            |child: &ChildRole| matches!(child, ChildRole::Cleaner { slot } if *slot == index);
        self.children.values().any(cleans)
    }

    pub(super) fn end(&mut self, index: usize, quarantined: bool) {
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        let (id, name) = (lease.id, lease.workspace.clone());
        self.disclose(index);
        let quarantined = quarantined || !self.remove_directory(&name);
        self.slots.end(index, Instant::now(), quarantined);
        self.reports.push(SpawnerEvent::Released(Released { lease: id, quarantined }));
    }

    /// Removes the empty directory of a workspace. Tenants lack the right to
    /// write to its parent.
    pub(super) fn remove_directory(&self, name: &str) -> bool {
        let root = &self.prepared.root.directory;
        let removed = unlinkat(root, name, UnlinkatFlags::RemoveDir);
        matches!(removed, Ok(()) | Err(Errno::ENOENT))
    }
}
