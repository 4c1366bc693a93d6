//! The cgroups of leases.

use std::io;

use super::Leases;
use crate::spawner::cgroup::RequestCgroup;
use crate::wire::{
    exceeded::LimitExceeded,
    message::{RequestLimits, SpawnerEvent},
    usage::TotalLimits,
};

impl Leases {
    /// Limits all requests together, as far as the kernel can. The passes check
    /// the rest.
    pub(in crate::spawner) fn limit_total(&mut self, limits: TotalLimits) {
        self.total = limits;
        if let Ok(cgroups) = &self.prepared.cgroups {
            cgroups.limit(limits);
        }
    }

    /// Creates the cgroup of a lease, unless it has one or requests have none.
    pub(super) fn create_cgroup(&mut self, slot: usize, limits: RequestLimits) -> io::Result<()> {
        let Ok(cgroups) = &mut self.prepared.cgroups else { return Ok(()) };
        let Some(lease) = self.slots.lease_mut(slot) else { return Ok(()) };
        if lease.cgroup.is_none() {
            lease.cgroup = Some(cgroups.create(lease.id, limits)?);
        }
        Ok(())
    }

    /// Kills all processes in the cgroup of a lease. This needs no process of
    /// ours and cannot miss one.
    pub(super) fn kill_cgroup(&mut self, slot: usize) {
        if let Some(cgroup) = self.slots.any_lease_mut(slot).and_then(|lease| lease.cgroup.as_ref())
        {
            cgroup.kill();
        }
    }

    /// Reports a limit of memory at which the kernel killed processes of a lease.
    pub(super) fn report_excess(&mut self, slot: usize) {
        let Some(lease) = self.slots.any_lease_mut(slot) else { return };
        if let Some(excess) = lease.cgroup.as_mut().and_then(RequestCgroup::take_excess) {
            let (lease, what) = (lease.id, excess.into());
            self.reports.push(SpawnerEvent::LimitExceeded(LimitExceeded {
                lease,
                what,
                ..LimitExceeded::default()
            }));
        }
    }

    /// Removes the cgroup of a lease that ends.
    pub(super) fn remove_cgroup(&mut self, slot: usize) {
        let Ok(cgroups) = &mut self.prepared.cgroups else { return };
        let lease = self.slots.any_lease_mut(slot);
        if let Some(cgroup) = lease.and_then(|lease| lease.cgroup.take()) {
            cgroups.remove(&cgroup);
        }
    }
}
