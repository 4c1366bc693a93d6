//! Sends signals to all processes of a lease.

use std::{
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        duty::Duty,
        slot::{PendingWorker, Remains},
    },
    wire::tier::Tier,
    worker,
};

impl Leases {
    /// Kills all processes of a lease between two commands.
    pub(super) fn sweep(&mut self, slot: usize) {
        self.order_workers(slot, Signal::SIGKILL);
        let Some(pair) = self.slots.uids(slot) else {
            // Guards forward it.
            return self.swept(slot);
        };
        let lease = self.slots.lease_mut(slot);
        if lease.is_some_and(|lease| lease.workers.is_empty()) && self.has_no_orphans() {
            return self.swept(slot);
        }
        if self.is_sweeping(slot) {
            // Two killers of one lease could kill each other. The end of the first one starts
            // what is pending.
            return;
        }
        let role = ChildRole::Sweeper { slot };
        if let Err(error) = self.order_killer(role, &Duty::sweep(pair))
            && let Some(worker) = self.take_pending(slot)
        {
            self.refuse_process(worker.job, &error);
        }
    }

    /// Sends SIGTERM to all processes of a lease, and wakes the slot when they
    /// have ended.
    pub(super) fn signal_stop(&mut self, slot: usize, grace: Duration) {
        self.order_workers(slot, Signal::SIGTERM);
        let Some(pair) = self.slots.uids(slot) else {
            // They may have ended before, so that no end wakes the slot.
            return self.wake_without_workers(slot);
        };
        // A worker that has not switched its UID is not reached. If no process
        // can be created, SIGKILL follows without SIGTERM.
        let role = ChildRole::Stopper { slot, grace };
        if self.order_killer(role, &Duty::stop(pair, grace)).is_err() {
            self.slots.wake_by(slot, Instant::now());
        }
    }

    fn order_killer(&mut self, role: ChildRole, duty: &Duty) -> io::Result<()> {
        let root = self.prepared.root.directory.as_fd();
        let ordered = self.reserve.spare(duty, root, self.prepared.kit(self.fork))?;
        self.children.insert(ordered.pid, role);
        Ok(())
    }

    pub(super) fn refuse_pending(&mut self, slot: usize, why: &str) {
        if let Some(worker) = self.take_pending(slot) {
            self.refuse(worker.job, why);
        }
    }

    fn take_pending(&mut self, slot: usize) -> Option<PendingWorker> {
        self.slots.lease_mut(slot)?.pending.take()
    }

    /// Signals the workers. In tiers without separate UIDs, their guards
    /// forward the signal. In the others, a worker that has not switched its
    /// UID yet is not reached by the killer.
    pub(super) fn order_workers(&mut self, slot: usize, signal: Signal) {
        let is_final = signal == Signal::SIGKILL;
        if is_final {
            self.kill_cgroup(slot);
        }
        let order = match self.prepared.tier {
            // SIGKILL would end only the guard, so it gets an order to kill its
            // descendants instead.
            Tier::Landlock | Tier::None if is_final => worker::KILL_ORDER,
            // With an init, the kernel kills all its descendants.
            Tier::Namespaces | Tier::Uid if is_final => Signal::SIGKILL,
            Tier::Landlock | Tier::None => signal,
            Tier::Namespaces | Tier::Uid => return,
        };
        let Some(lease) = self.slots.any_lease_mut(slot) else { return };
        for worker in lease.workers.keys() {
            // A worker that has ended needs no signal, and one that has
            // switched its UID is reached by the killer.
            let _ = signal::kill(*worker, order);
        }
    }

    /// Handles the end of a sweep.
    pub(super) fn swept(&mut self, slot: usize) {
        if let Some(lease) = self.slots.lease_mut(slot) {
            lease.remains = Remains::Files;
        }
        self.start_waiting(slot);
    }

    /// All processes have ended after SIGTERM, or cannot be signalled.
    pub(super) fn stopped_gently(&mut self, slot: usize, now: Instant) {
        if self.slots.release_mut(slot).is_some_and(|release| release.is_stopping()) {
            self.slots.wake_by(slot, now);
        }
    }

    /// Returns true if a process that kills all processes of the slot still
    /// runs.
    pub(super) fn is_sweeping(&self, index: usize) -> bool {
        let sweeps =
            |child: &ChildRole| matches!(child, ChildRole::Sweeper { slot } if *slot == index);
        self.children.values().any(sweeps)
    }

    /// The processes that signal those of the slot or lower their priority. The slot must
    /// not be leased again before they end.
    pub(super) fn signalling(&self, index: usize) -> impl Iterator<Item = Pid> {
        let signals = move |child: &ChildRole| {
            matches!(child, ChildRole::Sweeper { slot }
                | ChildRole::Stopper { slot, .. }
                | ChildRole::Demoter { slot } if *slot == index)
        };
        self.children.iter().filter(move |(_, child)| signals(child)).map(|(pid, _)| *pid)
    }

    /// Returns true if there is such a process.
    pub(super) fn is_signalling(&self, index: usize) -> bool {
        self.signalling(index).next().is_some()
    }
}
