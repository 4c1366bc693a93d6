//! Ends a request before the container is full.

use std::time::Instant;

use super::Leases;
use crate::{
    spawner::{
        census::Survey,
        pressure::Level,
        victim::{self, Container, Victim},
    },
    wire::{exceeded::LimitExceeded, message::SpawnerEvent, usage::LeaseUsage},
};

impl Leases {
    /// Looks at the memory of the container, if it is time. Growth makes a pass
    /// due.
    pub(super) fn look(&mut self, now: Instant) {
        if self.pressure.look(self.total.container, now) != Level::Calm {
            self.passes.hurry(now);
        }
        if self.pressure.is_urgent(now) {
            self.end_largest(now);
        }
    }

    /// Ends the largest request if all together use too much, or if the container
    /// is almost full.
    pub(super) fn end_largest(&mut self, now: Instant) {
        let usages: Vec<LeaseUsage> =
            self.active().map(|lease| lease.tally.usage(lease.id)).collect();
        let sockets = self.active().map(|lease| lease.tally.sockets());
        let used = self.pressure.used().map(|used| sockets.fold(used, u64::saturating_add));
        let container = Container { is_full: self.pressure.is_full(), used };
        let Some(victim) = victim::of_totals(&self.total, &usages, container) else { return };
        if container.is_full {
            self.pressure.relieve(now);
        }
        self.end_at_once(victim);
    }

    /// Ends the requests with most local ports until all others together have few enough.
    /// `seen` are those of their UIDs.
    pub(super) fn end_port_takers(&mut self, mut seen: u64) {
        loop {
            let ports: Vec<_> =
                self.active().map(|lease| (lease.id, lease.tally.ports())).collect();
            let limit = self.passes.ports;
            let Some(victim) = victim::port_taker(limit, seen, &ports) else { return };
            seen = seen.saturating_sub(victim.used);
            self.end_at_once(victim);
        }
    }

    fn end_at_once(&mut self, victim: Victim) {
        self.sacrifice(victim);
        // The supervisor releases the lease, but its processes may take more until then.
        let slot = self.slots.find(victim.lease);
        if let Some(slot) = slot.filter(|slot| self.slots.leased(*slot).is_some()) {
            self.sweep(slot);
        }
    }

    /// Ends the request that leaves no processes to others, if the kernel has refused some.
    /// A pass tells who has them; cgroups also tell it without one that is complete.
    pub(super) fn judge_crowd(&mut self, survey: &Survey, now: Instant) {
        let are_all_counted = survey.is_complete || self.prepared.cgroups.is_ok();
        if are_all_counted && self.passes.refusals.pass_ends(now) {
            self.end_crowd();
        }
    }

    /// Ends the request that has most of all processes. Processes of an ended request are still
    /// there for a while, and are then the reason: no other request ends for them.
    fn end_crowd(&mut self) {
        let slots = self.slots.iter().filter(|(_, slot)| !slot.is_quarantined());
        let leases = slots.filter_map(|(_, slot)| slot.lease());
        let usages: Vec<LeaseUsage> = leases.map(|lease| lease.tally.usage(lease.id)).collect();
        let Some(victim) = victim::crowd(&usages) else { return };
        if self.active().any(|lease| lease.id == victim.lease) {
            self.sacrifice(victim);
        }
    }

    fn sacrifice(&mut self, victim: Victim) {
        let slot = self.slots.find(victim.lease);
        let lease = slot.and_then(|slot| self.slots.working_mut(slot));
        if let Some(schedule) = lease.and_then(|lease| lease.schedule.as_mut()) {
            schedule.end();
        }
        self.reports.push(SpawnerEvent::LimitExceeded(LimitExceeded {
            lease: victim.lease,
            what: victim.exceeded.into(),
            limit: Some(victim.limit),
            used: Some(victim.used),
        }));
        self.end_grace(victim.lease);
    }
}
