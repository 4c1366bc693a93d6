//! Looking at what requests take while their commands run.

use std::time::Instant;

use nix::unistd::Pid;

use super::{Child, Leases};
use crate::{
    spawner::{
        gauge::{self, Found, Identity, Subject},
        rounds::Rounds,
        users::Pair,
    },
    wire::{
        message::{ExceededLimitName, LimitExceeded, SpawnerEvent},
        tier::Tier,
    },
};

/// A look under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    slot: usize,
    lease: u64,
    began: Instant,
}

impl Leases {
    /// Has a lease looked at for as long as it lasts.
    pub(in crate::spawner) fn watch(&mut self, lease: u64) {
        let slot = self.slots.find(lease);
        let lease = slot.and_then(|slot| self.slots.lease_mut(slot));
        if let Some(lease) = lease.filter(|lease| lease.rounds.is_none()) {
            lease.rounds = Rounds::begin(Instant::now(), lease.limits);
        }
    }

    /// Has a slot looked at if it is time. Never twice at once: the last look at
    /// an earlier tenant may still be under way.
    pub(super) fn look_if_due(&mut self, slot: usize, now: Instant) {
        let is_at_it = |child: &Child| matches!(child, Child::Gauge(look) if look.slot == slot);
        let is_busy = self.children.values().any(is_at_it);
        let pair = self.slots.users(slot);
        let identity = pair.map(|Pair { killer, tenant }| Identity { own: killer, tenant });
        let Some(lease) = self.slots.lease_mut(slot) else { return };
        let Some(rounds) = lease.rounds.as_mut() else { return };
        let Some(limits) = rounds.take_due(now) else { return };
        if is_busy {
            return rounds.put_off(now);
        }
        let look = Look { slot, lease: lease.id, began: now };
        let workers: Vec<Pid> = lease.workers.keys().copied().collect();
        let subject = Subject {
            root: &self.arrangement.root.directory,
            workspace: &lease.workspace,
            identity,
            workers: &workers,
            shared: lease.shared.as_ref(),
            since: lease.since,
            may_hide: self.arrangement.tier == Tier::None,
        };
        match self.fork.fork(|| gauge::look(&subject, limits)) {
            Ok(pid) => drop(self.children.insert(pid, Child::Gauge(look))),
            Err(_none_to_be_had) => self.seen(look, Found::Nothing, Instant::now()),
        }
    }

    /// A look has ended.
    pub(super) fn looked(&mut self, look: Look, status: i32, now: Instant) {
        self.seen(look, gauge::found(status), now);
    }

    fn seen(&mut self, look: Look, found: Found, now: Instant) {
        let Look { slot, lease: id, began } = look;
        let lease = self.slots.lease_mut(slot).filter(|lease| lease.id == id);
        let rounds = lease.and_then(|lease| lease.rounds.as_mut());
        if let Some(excess) = rounds.and_then(|rounds| rounds.looked(began, now, found)) {
            let what = ExceededLimitName::from(excess).into();
            self.reports.push(SpawnerEvent::LimitExceeded(LimitExceeded { lease: id, what }));
        }
    }
}
