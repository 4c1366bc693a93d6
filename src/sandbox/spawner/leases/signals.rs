//! Signals to everything under a lease.

use std::time::Instant;

use nix::sys::signal::{self, Signal};

use super::{
    super::{
        super::{tier::Tier, worker},
        kill,
        kills::Kill,
    },
    Child, Leases,
};

impl Leases {
    pub(super) fn signal(&mut self, slot: usize, signal: Signal) {
        if let Some(lease) = self.slots.any_lease_mut(slot).map(|lease| lease.id) {
            self.kills.push(Kill { slot, lease, signal });
            self.next_kill();
        }
    }

    fn next_kill(&mut self) {
        let Some(kill) = self.kills.next() else { return };
        let is_due = self.slots.find(kill.lease) == Some(kill.slot);
        if is_due {
            self.order_workers(kill);
        }
        let users = self.arrangement.users.as_ref().filter(|_| is_due);
        let killer = users.map(|users| users.killer).zip(self.slots.user(kill.slot));
        if let Some((killer, victim)) = killer {
            match self.fork.fork(|| kill::kill_all(victim, killer, kill.signal)) {
                Ok(pid) => {
                    self.children.insert(pid, Child::Killer(kill));
                    return;
                }
                Err(_none_to_be_had) => self.missed(kill),
            }
        }
        // Nobody to be killed, guards who do it, or no process to be had: then
        // cleaning finds the tenant's, and asks again.
        self.killed(kill, Instant::now());
    }

    /// Nobody was killed who should have been: what waits for that must not
    /// start, or it would meet what an earlier command left.
    pub(super) fn missed(&mut self, kill: Kill) {
        let waiting = self.slots.lease_mut(kill.slot).and_then(|lease| lease.waiting.take());
        if let Some(worker) = waiting {
            self.refuse(worker.job, "what an earlier command left cannot be ended");
        }
    }

    /// Signals the workers themselves. Where everybody is one user, guards know
    /// whom to pass it on to; elsewhere a worker that has not changed its user
    /// yet is met by no killer.
    fn order_workers(&mut self, kill: Kill) {
        let is_final = kill.signal == Signal::SIGKILL;
        let order = match self.arrangement.tier {
            // The warden ends what it wards; without it nobody could.
            Tier::Namespaces | Tier::Landlock | Tier::None if is_final => worker::END,
            Tier::Uid if is_final => Signal::SIGKILL,
            Tier::Landlock | Tier::None => kill.signal,
            Tier::Namespaces | Tier::Uid => return,
        };
        let Some(lease) = self.slots.any_lease_mut(kill.slot) else { return };
        for worker in lease.workers.keys() {
            // One that is gone needs no order, and for one that is the tenant's
            // user already there is the killer.
            let _ = signal::kill(*worker, order);
        }
    }

    /// The signal to a slot's processes was sent.
    pub(super) fn killed(&mut self, kill: Kill, now: Instant) {
        self.kills.done();
        let lease = self.slots.lease_mut(kill.slot).filter(|lease| lease.id == kill.lease);
        if let Some(lease) = lease.filter(|_| kill.signal == Signal::SIGKILL) {
            lease.used = false;
        }
        self.start_waiting(kill.slot);
        // A cleaner at work says itself what comes next.
        if !self.is_cleaning(kill.slot) {
            self.step(kill.slot, |ending| ending.signalled(now));
        }
        self.next_kill();
    }
}
