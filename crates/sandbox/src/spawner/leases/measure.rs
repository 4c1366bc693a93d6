//! Measures the usage of requests while their commands run.

use std::time::Instant;

use nix::unistd::Pid;

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        meter::{self, Measurement, MeterIdentity, Subject},
        schedule::Schedule,
        uid_pool::UidPair,
    },
    wire::{
        message::{ExceededLimitName, LimitExceeded, SpawnerEvent},
        tier::Tier,
    },
};

/// A meter that is running.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningMeter {
    slot: usize,
    lease: u64,
    began: Instant,
}

impl Leases {
    /// Measures a lease's usage regularly until the lease ends.
    pub(in crate::spawner) fn watch(&mut self, lease: u64) {
        let slot = self.slots.find(lease);
        let lease = slot.and_then(|slot| self.slots.lease_mut(slot));
        if let Some(lease) = lease.filter(|lease| lease.schedule.is_none()) {
            lease.schedule = Schedule::begin(Instant::now(), lease.limits);
        }
    }

    /// Starts a meter for a slot if it is due. Never two at once: the meter of
    /// the slot's previous lease may still run.
    pub(super) fn measure_if_due(&mut self, slot: usize, now: Instant) {
        let is_running = |child: &ChildRole| matches!(child, ChildRole::Meter(meter_run) if meter_run.slot == slot);
        let is_busy = self.children.values().any(is_running);
        let pair = self.slots.uids(slot);
        let identity = pair.map(|UidPair { killer, tenant }| MeterIdentity { own: killer, tenant });
        let Some(lease) = self.slots.lease_mut(slot) else { return };
        let Some(schedule) = lease.schedule.as_mut() else { return };
        let Some(limits) = schedule.take_due(now) else { return };
        if is_busy {
            return schedule.postpone(now);
        }
        let meter_run = RunningMeter { slot, lease: lease.id, began: now };
        let workers: Vec<Pid> = lease.workers.keys().copied().collect();
        let subject = Subject {
            root: &self.prepared.root.directory,
            workspace: &lease.workspace,
            identity,
            workers: &workers,
            shared: lease.shared.as_ref(),
            since: lease.since,
            may_hide: self.prepared.tier == Tier::None,
        };
        match self.fork.fork(|| meter::run(&subject, limits)) {
            Ok(pid) => drop(self.children.insert(pid, ChildRole::Meter(meter_run))),
            Err(_none_to_be_had) => self.record(meter_run, Measurement::Unknown, Instant::now()),
        }
    }

    /// Handles a meter that has ended.
    pub(super) fn measured(&mut self, meter_run: RunningMeter, status: i32, now: Instant) {
        self.record(meter_run, meter::measurement(status), now);
    }

    fn record(&mut self, meter_run: RunningMeter, found: Measurement, now: Instant) {
        let RunningMeter { slot, lease: id, began } = meter_run;
        let lease = self.slots.lease_mut(slot).filter(|lease| lease.id == id);
        let schedule = lease.and_then(|lease| lease.schedule.as_mut());
        if let Some(excess) = schedule.and_then(|schedule| schedule.measured(began, now, found)) {
            let what = ExceededLimitName::from(excess).into();
            self.reports.push(SpawnerEvent::LimitExceeded(LimitExceeded { lease: id, what }));
        }
    }
}
