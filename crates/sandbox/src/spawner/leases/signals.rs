//! Signals to everything under a lease.

use nix::sys::signal::{self, Signal};

use super::{ChildRole, Leases};
use crate::{spawner::kill, wire::tier::Tier, worker};

impl Leases {
    /// Sends a signal to all processes of a slot's tenant.
    pub(super) fn signal(&mut self, slot: usize, signal: Signal) {
        self.order_workers(slot, signal);
        let Some(pair) = self.slots.uids(slot) else {
            // Guards pass it on.
            return self.signalled(slot, signal);
        };
        match self.fork.fork(|| kill::kill_all(pair, signal)) {
            Ok(pid) => {
                self.children.insert(pid, ChildRole::Killer { slot, signal });
            }
            // No process to be had. Cleaning finds the tenant's, and asks again.
            Err(_none_to_be_had) => {
                self.missed(slot);
                self.signalled(slot, signal);
            }
        }
    }

    /// Nobody was killed who should have been: what waits for that must not
    /// start, or it would meet what an earlier command left.
    pub(super) fn missed(&mut self, slot: usize) {
        let waiting = self.slots.lease_mut(slot).and_then(|lease| lease.pending.take());
        if let Some(worker) = waiting {
            self.refuse(worker.job, "what an earlier command left cannot be ended");
        }
    }

    /// Signals the workers themselves. Where everybody is one user, guards know
    /// whom to pass it on to; elsewhere a worker that has not changed its user
    /// yet is met by no killer.
    pub(super) fn order_workers(&mut self, slot: usize, signal: Signal) {
        let is_final = signal == Signal::SIGKILL;
        let order = match self.prepared.tier {
            // The warden ends what it wards; without it nobody could.
            Tier::Namespaces | Tier::Landlock | Tier::None if is_final => worker::KILL_ORDER,
            Tier::Uid if is_final => Signal::SIGKILL,
            Tier::Landlock | Tier::None => signal,
            Tier::Namespaces | Tier::Uid => return,
        };
        let Some(lease) = self.slots.any_lease_mut(slot) else { return };
        for worker in lease.workers.keys() {
            // One that is gone needs no order, and for one that is the tenant's
            // user already there is the killer.
            let _ = signal::kill(*worker, order);
        }
    }

    /// A signal to a slot's processes was sent.
    pub(super) fn signalled(&mut self, slot: usize, signal: Signal) {
        if let Some(lease) = self.slots.lease_mut(slot).filter(|_| signal == Signal::SIGKILL) {
            lease.used = false;
        }
        self.start_waiting(slot);
        // A cleaner at work says itself what comes next.
        if !self.is_cleaning(slot) {
            let now = std::time::Instant::now();
            self.step(slot, |release| release.signalled(now));
        }
    }

    /// Whether a signal is on its way to a slot's tenant. Until it has arrived
    /// the slot must not have another.
    pub(super) fn is_signalling(&self, index: usize) -> bool {
        let signals =
            |child: &ChildRole| matches!(child, ChildRole::Killer { slot, .. } if *slot == index);
        self.children.values().any(signals)
    }
}
