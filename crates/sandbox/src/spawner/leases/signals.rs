//! Sends signals to all processes of a lease.

use nix::sys::signal::{self, Signal};

use super::{ChildRole, Leases};
use crate::{spawner::kill, wire::tier::Tier, worker};

impl Leases {
    /// Sends a signal to all processes of a slot's tenant.
    pub(super) fn signal(&mut self, slot: usize, signal: Signal) {
        self.order_workers(slot, signal);
        let Some(pair) = self.slots.uids(slot) else {
            // Guards forward it.
            return self.signalled(slot, signal);
        };
        match self.fork.fork(|| kill::kill_all(pair, signal)) {
            Ok(pid) => {
                self.children.insert(pid, ChildRole::Killer { slot, signal });
            }
            // Fork failed. The cleaner will find the processes, and the signal
            // is sent again.
            Err(_none_to_be_had) => {
                self.missed(slot);
                self.signalled(slot, signal);
            }
        }
    }

    /// Refuses the pending worker, because leftovers of the previous command
    /// could not be killed.
    pub(super) fn missed(&mut self, slot: usize) {
        let waiting = self.slots.lease_mut(slot).and_then(|lease| lease.pending.take());
        if let Some(worker) = waiting {
            self.refuse(worker.job, "leftover processes of an earlier command cannot be killed");
        }
    }

    /// Signals the workers. In tiers without separate UIDs, their guards
    /// forward the signal. In the others, a worker that has not switched its
    /// UID yet is not reached by the killer.
    pub(super) fn order_workers(&mut self, slot: usize, signal: Signal) {
        let is_final = signal == Signal::SIGKILL;
        if is_final {
            self.kill_enclosed(slot);
        }
        let order = match self.prepared.tier {
            // SIGKILL would end only the monitor or guard, so it gets an order
            // to kill its descendants instead.
            Tier::Namespaces | Tier::Landlock | Tier::None if is_final => worker::KILL_ORDER,
            Tier::Uid if is_final => Signal::SIGKILL,
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

    /// Handles a signal that was sent to a slot's processes.
    pub(super) fn signalled(&mut self, slot: usize, signal: Signal) {
        if let Some(lease) = self.slots.lease_mut(slot).filter(|_| signal == Signal::SIGKILL) {
            lease.used = false;
        }
        self.start_waiting(slot);
        // A running cleaner decides the next step when it ends.
        if !self.is_cleaning(slot) {
            let now = std::time::Instant::now();
            self.step(slot, |release| release.signalled(now));
        }
    }

    /// Returns true if a killer of the slot still runs. The slot must not be
    /// leased again before it ends.
    pub(super) fn is_signalling(&self, index: usize) -> bool {
        let signals =
            |child: &ChildRole| matches!(child, ChildRole::Killer { slot, .. } if *slot == index);
        self.children.values().any(signals)
    }
}
