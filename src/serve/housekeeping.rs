//! Regular work: gives back what nobody uses any more, and follows and measures the budget.

use std::time::Duration;

use tokio::{
    sync::watch::Receiver,
    time::{MissedTickBehavior, interval},
};

use super::heap::Heap;
use crate::{grpc::Backend, metrics::Shared, request::admission::Load, state::State};

/// Time between two rounds.
const INTERVAL: Duration = Duration::from_secs(2);

/// The parts that have something to give back, or know how much of the budget is in use.
#[derive(Debug)]
pub(super) struct Housekeeping {
    pub(super) backend: Backend,
    pub(super) states: Receiver<State>,
}

impl Housekeeping {
    /// Works until the runtime ends.
    pub(super) async fn run(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heap = Heap::default();
        let Backend { pipeline, metrics, recorders, calls, room, .. } = &self.backend;
        loop {
            ticks.tick().await;
            pipeline.kept.sweep();
            pipeline.converter.follow_budget();
            pipeline.kept.give_space(&pipeline.volume).await;
            for (resource, amount) in self.measure() {
                metrics.budget_used(resource, amount);
            }
            metrics.budget_short(&pipeline.admission.short_of());
            heap.give_back(recorders.recent.total(), calls.is_empty(), room.in_use()).await;
        }
    }

    /// The use of each part of the budget.
    fn measure(&self) -> [(Shared, u64); 9] {
        let Backend { pipeline, archive_share, room, .. } = &self.backend;
        let Load { running, waiting, .. } = pipeline.admission.load();
        let used = pipeline.link.consumption().borrow().total();
        let state = self.states.borrow();
        let budget = state.budget.as_ref();
        let files =
            if budget.is_some_and(|budget| budget.in_memory) { used.file_memory } else { 0 };
        let leases = budget.map_or(0, |budget| budget.leases.amount as usize);
        [
            (Shared::Requests, running as u64),
            (Shared::Queue, waiting as u64),
            (Shared::Leases, leases.saturating_sub(pipeline.link.free_leases()) as u64),
            (Shared::Memory, used.memory.saturating_add(files)),
            (Shared::Processes, used.processes),
            (Shared::Disk, used.disk),
            (Shared::Outputs, pipeline.converter.in_use()),
            (Shared::Archives, archive_share.in_use()),
            (Shared::Connections, room.in_use() as u64),
        ]
    }
}
