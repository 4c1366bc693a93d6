//! The use of the budget, for metrics. Gives back what nobody uses any more.

use std::time::Duration;

use cmp_sandbox::Link;
use tokio::{
    sync::watch::Receiver,
    time::{MissedTickBehavior, interval},
};
use tokio_util::task::TaskTracker;

use super::heap::Heap;
use crate::{
    grpc::{Common, Room},
    metrics::{Metrics, Shared},
    recent::Recent,
    request::{
        Converter, KeptArchives,
        admission::{Admission, Load},
    },
    state::State,
    volume::WorkVolume,
};

/// Time between two measurements.
const INTERVAL: Duration = Duration::from_secs(2);

/// The parts that know how much of the budget is in use.
#[derive(Debug)]
pub(super) struct Saturation {
    link: Link,
    admission: Admission,
    converter: Converter,
    archives: KeptArchives,
    volume: WorkVolume,
    room: Room,
    states: Receiver<State>,
    metrics: Metrics,
    recent: Recent,
    /// The calls that are running.
    calls: TaskTracker,
}

impl Saturation {
    pub(super) fn new(link: Link, common: &Common, states: Receiver<State>) -> Self {
        Self {
            link,
            admission: common.pipeline.admission.clone(),
            converter: common.pipeline.converter.clone(),
            archives: common.pipeline.kept.clone(),
            volume: common.pipeline.volume.clone(),
            room: common.room.clone(),
            states,
            metrics: common.metrics.clone(),
            recent: common.recent.clone(),
            calls: common.calls.clone(),
        }
    }

    /// Measures until the runtime ends.
    pub(super) async fn follow(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heap = Heap::default();
        loop {
            ticks.tick().await;
            self.archives.sweep();
            self.archives.give_space(&self.volume).await;
            for (resource, amount) in self.measure() {
                self.metrics.budget_used(resource, amount);
            }
            let (_, ended) = self.recent.since(None, 0);
            heap.give_back(ended, self.calls.is_empty()).await;
        }
    }

    fn measure(&self) -> [(Shared, u64); 9] {
        let Load { running, waiting } = self.admission.load();
        let used = self.link.consumption().borrow().total();
        let state = self.states.borrow();
        let budget = state.budget.as_ref();
        let files =
            if budget.is_some_and(|budget| budget.in_memory) { used.file_memory } else { 0 };
        let leases = budget.map_or(0, |budget| budget.leases.amount as usize);
        [
            (Shared::Requests, running as u64),
            (Shared::Queue, waiting as u64),
            (Shared::Leases, leases.saturating_sub(self.link.free_leases()) as u64),
            (Shared::Memory, used.memory.saturating_add(files)),
            (Shared::Processes, used.processes),
            (Shared::Disk, used.disk),
            (Shared::Outputs, self.converter.in_use()),
            (Shared::Archives, self.archives.in_use()),
            (Shared::Connections, self.room.in_use() as u64),
        ]
    }
}
