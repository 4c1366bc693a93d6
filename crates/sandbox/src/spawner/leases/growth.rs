//! Divides the growth of the work volume among requests.

use super::Leases;
use crate::spawner::{
    census::{Row, Survey, Volume},
    slot::LeaseRecord,
};

impl Leases {
    /// Adds to each request the part of the growth that it is presumed to have caused. Those
    /// that unpack an archive grow too. Growth without any CPU time waits for the next pass.
    pub(super) fn presume(&mut self, survey: &Survey, growth: Volume) {
        if !survey.is_complete {
            return;
        }
        let growth = growth.plus(self.passes.unclaimed);
        let mut spent = Vec::new();
        for slot in 0..self.slots.len() {
            let row = self.row(slot, survey);
            if let Some(lease) = self.slots.working_mut(slot) {
                let ticks = lease.presumed.spent(row.map_or(0, |row| row.ticks));
                spent.push((slot, ticks));
            }
        }
        let all = spent.iter().fold(0, |sum: u64, (_, ticks)| sum.saturating_add(*ticks));
        self.passes.unclaimed = if all == 0 { growth } else { Volume::default() };
        for (slot, ticks) in spent {
            if let Some(lease) = self.slots.working_mut(slot) {
                lease.presumed.add(growth.part(ticks, all));
            }
        }
    }

    /// The row of a pass for the lease of a slot; `None` if it has no process.
    pub(super) fn row(&self, slot: usize, survey: &Survey) -> Option<Row> {
        if let Some(pair) = self.slots.uids(slot) {
            return survey.rows.get(&pair.tenant.as_raw()).copied();
        }
        let (_, slot) = self.slots.iter().nth(slot)?;
        let LeaseRecord { workers, .. } = slot.lease()?;
        sum(workers.keys().filter_map(|pid| survey.rows.get(&pid.as_raw().unsigned_abs())))
    }
}

/// The rows of all workers of a request together; `None` if there are none.
fn sum<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<Row> {
    rows.copied().reduce(|sum, row| Row {
        key: sum.key,
        processes: sum.processes.saturating_add(row.processes),
        running: sum.running.saturating_add(row.running),
        own: sum.own.saturating_add(row.own),
        shared: sum.shared.saturating_add(row.shared),
        tables: sum.tables.saturating_add(row.tables),
        sockets: None,
        orphans: 0,
        ticks: sum.ticks.saturating_add(row.ticks),
        members: sum.members.wrapping_add(row.members),
        ports: sum.ports.saturating_add(row.ports),
    })
}
