//! Lowers the priority of requests that use much CPU time while others want it.
//!
//! All tenants run below the supervisor. A lowered request also runs below other
//! requests: it gets the time that they leave.

use std::{num::NonZero, thread, time::Instant};

use nix::unistd::Pid;

use super::{ChildRole, Leases};
use crate::spawner::{demote, priority::Demand};

impl Leases {
    /// Lowers each request that uses much.
    pub(super) fn lower_priorities(&mut self, now: Instant) {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let others = self.active().filter(|lease| lease.tally.running() > 0).count();
        for slot in 0..self.slots.len() {
            let Some(lease) = self.slots.working_mut(slot) else { continue };
            let (cpu, running) = (lease.tally.cpu(), lease.tally.running());
            let demand =
                Demand { processors: processors as u64, cpu, running, has_others: others > 1 };
            if lease.priority.take_due(&demand, now) {
                self.lower(slot, demand.is_crowd().then_some(processors));
            }
        }
    }

    /// `crowded` is the number of processors if the request is a crowd.
    fn lower(&mut self, slot: usize, crowded: Option<usize>) {
        let uids = self.slots.uids(slot);
        let Some(lease) = self.slots.working_mut(slot) else { return };
        let workers: Vec<Pid> = lease.workers.keys().copied().collect();
        let pen = crowded.and_then(|processors| demote::pen(processors, slot));
        match self.fork.fork(|| demote::run(uids, &workers, pen)) {
            Ok(pid) => drop(self.children.insert(pid, ChildRole::Demoter { slot })),
            // If the container has no process left, a later pass tries again.
            Err(_refused) => lease.priority.missed(),
        }
    }
}
