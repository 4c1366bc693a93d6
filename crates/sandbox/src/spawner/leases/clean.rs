//! Ends leases that left no process without creating one.

use std::{collections::BTreeSet, os::fd::AsFd, time::Instant};

use nix::unistd::Pid;

use super::Leases;
use crate::spawner::{cleaner::Leftover, release::Remaining, slot::LeaseRecord};

impl Leases {
    /// Returns true if no process of a lease without workers is left, of any lease.
    /// False if the kernel cannot tell.
    pub(super) fn has_no_orphans(&self) -> bool {
        let list = self.prepared.children.as_ref().and_then(|list| list.read().ok());
        list.is_some_and(|pids| pids.into_iter().all(|pid| self.has_created(pid)))
    }

    pub(super) fn has_created(&self, pid: u32) -> bool {
        let Ok(pid) = i32::try_from(pid).map(Pid::from_raw) else { return false };
        let is_known = self.children.contains_key(&pid) || self.reserve.has(pid);
        is_known || self.cleaner.is(pid) || self.is_census(pid)
    }

    /// Lets the cleaner remove the files of a lease whose last command ended by itself,
    /// at the first attempt to end it. Returns false if somebody else must.
    pub(super) fn clean(&mut self, slot: usize) -> bool {
        let is_first = self.slots.release_mut(slot).is_some_and(|release| release.is_first());
        let is_plain = |lease: &mut LeaseRecord| {
            !lease.is_cut_off && lease.workers.is_empty() && lease.shared.is_none()
        };
        let is_plain = self.slots.any_lease_mut(slot).is_some_and(is_plain);
        if !is_first || !is_plain || !self.has_no_orphans() {
            return false;
        }
        // The directory may have been closed by a tenant with the same UID. The
        // cleaner tells what remains.
        let _ = self.prepared.root.reopen();
        let owner = self.user(slot);
        let Some(lease) = self.slots.any_lease_mut(slot) else { return false };
        let root = self.prepared.root.directory.as_fd();
        let files = Leftover { slot, owner, workspace: &lease.workspace, root };
        self.cleaner.order(files, self.prepared.cleaner_rights()).is_ok()
    }

    /// Handles the answers of the cleaner.
    pub(super) fn hear_cleaner(&mut self) {
        while let Some((slot, is_empty)) = self.cleaner.hear() {
            let found = if is_empty { Remaining::Nothing } else { Remaining::Unknown };
            self.step(slot, |release| release.ended(Instant::now(), found));
        }
    }

    /// Ends the leases with which the cleaner does not finish.
    pub(super) fn end_unfinished(&mut self, slots: BTreeSet<usize>) {
        for slot in slots {
            self.step(slot, |release| release.ended(Instant::now(), Remaining::Unknown));
        }
    }
}
