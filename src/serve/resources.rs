//! The container and the budget that follows from it, kept up to date.

use std::{path::PathBuf, time::Duration};

use cmp_sandbox::{RAISE_FILE_SIZE, TotalLimits, most_file_size};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Handles, throttling::Throttling};
use crate::{
    budget::{Budget, Given},
    config::Serve,
    container::{Container, CpuPeriods},
    grpc::Room,
    metrics::Contained,
};

/// Interval at which the container's limits are read again. A Pod can be resized
/// without a restart.
const INTERVAL: Duration = Duration::from_secs(5);

/// Amounts of resources in use.
type Used = Vec<(Contained, u64)>;

/// The limits of the container, the settings, and the budget.
#[derive(Debug)]
pub(super) struct Resources {
    work_dir: PathBuf,
    given: Given,
    container: Container,
    budget: watch::Sender<Budget>,
}

impl Resources {
    pub(super) fn read(config: &Serve) -> Self {
        let (work_dir, given) = (config.work_dir(), config.given());
        let container = Container::read(&work_dir);
        let budget = watch::Sender::new(Budget::derive(&container, &given));
        Self { work_dir, given, container, budget }
    }

    /// Most leases at a time.
    pub(super) fn leases(&self) -> u32 {
        self.budget.borrow().leases.amount
    }

    /// The resources with the leases that the spawner could create.
    pub(super) fn with_leases(self, leases: u32) -> Self {
        let given = Given { leases: Some(leases), ..self.given };
        self.budget.send_replace(Budget::derive(&self.container, &given));
        Self { given, ..self }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Budget> {
        self.budget.subscribe()
    }

    /// Logs the budget in one line, and settings that do not fit.
    pub(super) fn log(&self) {
        let budget = self.budget.borrow();
        info!(budget = budget.line(), "the container's resources are shared out");
        for reason in &budget.warnings {
            warn!(reason, "a setting does not fit the container");
        }
    }

    /// Publishes the budget, now and after each change of the container.
    pub(super) async fn follow(mut self, handles: Handles, room: Room, stop: CancellationToken) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.publish(&handles, &room).await;
        let mut throttling = Throttling::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            // A volume that does not answer must not keep the server from ending.
            let now = stop.run_until_cancelled(self.read_again()).await;
            let Some((now, used, periods)) = now.flatten() else { continue };
            for (resource, amount) in used {
                handles.metrics.container_used(resource, amount);
            }
            if let Some(periods) = periods {
                handles.metrics.cpu_periods(periods.all, periods.throttled);
                throttling.follow(periods, &now.cpu);
            }
            if now == self.container {
                continue;
            }
            self.container = now;
            let budget = Budget::derive(&self.container, &self.given);
            let is_new = self.budget.send_if_modified(|old| {
                let is_new = *old != budget;
                *old = budget;
                is_new
            });
            if is_new {
                self.log();
                self.publish(&handles, &room).await;
            }
        }
    }

    /// Reads files that may take long, for example on a network volume.
    async fn read_again(&self) -> Option<(Container, Used, Option<CpuPeriods>)> {
        let (before, work_dir) = (self.container.clone(), self.work_dir.clone());
        let read = move || (before.read_again(&work_dir), Container::used(), CpuPeriods::read());
        spawn_blocking(read).await.ok()
    }

    async fn publish(&self, Handles { link, states, metrics }: &Handles, room: &Room) {
        let budget = self.budget.borrow().clone();
        room.resize(&budget.connections);
        for (resource, amount) in budget.amounts() {
            metrics.budget(resource, amount);
        }
        for (resource, bound) in self.container.bounds() {
            metrics.container_limit(resource, bound.amount);
        }
        let limits = TotalLimits {
            memory: Some(budget.memory.amount),
            processes: Some(budget.processes.amount),
            disk: Some(budget.shared_disk()).filter(|bytes| *bytes > 0),
            volume_is_memory: budget.in_memory,
            container: Some(self.container.memory.amount).filter(|_| self.container.memory.is_own),
        };
        // If the spawner is gone, the supervisor ends.
        let _ = link.limit_total(limits).await;
        states.send_modify(|state| state.budget = Some(budget));
    }
}

/// Warns of a limit of the container that nothing here can raise.
pub(super) fn warn_of_file_size() {
    if let Some(limit) = most_file_size() {
        warn!(
            limit,
            "the container limits the size of each file (RLIMIT_FSIZE), those of repositories \
             included: {RAISE_FILE_SIZE}"
        );
    }
}
