//! The supervisor's end of the connection to the spawner.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tracing::{error, info, warn};

use super::{
    bounds::Bounds,
    consumption::Consumption,
    handle::{SpawnerGone, Unconfined, WorkerHandle},
    health::Health,
    heartbeat,
    late_usage::LateUsage,
    lease::{Lease, LeaseRequest, NoLease, Outgoing, SharedRepository},
    limit_watch::LimitWatch,
    socket::Socket,
    start::Spawner,
};
use crate::wire::{
    channel,
    exceeded::LimitExceeded,
    message::{
        JobKind, LeaseOrder, Leased, Order, OrderKind, SpawnerEvent, SpawnerReport, StartOrder,
        WorkerEnd, WorkerEnded,
    },
    plan::Exited,
    quarantine::Quarantined,
    tier::Tier,
    transient::{is_transient, remedy},
    usage::TotalLimits,
};

/// Orders that one lease may have in the queue: start, watch, stop, release,
/// and the order for the next lease.
const ORDERS_PER_LEASE: usize = 5;

/// Rounds of attempts to send an order whose result no request waits for, while the
/// kernel lacks memory. They take ten seconds, as long as the spawner may be silent.
const ROUNDS: u32 = 20;

/// Sends orders to the spawner. Clones are cheap. The spawner ends when the
/// last clone and the driver are dropped.
#[derive(Clone, Debug)]
pub struct Link {
    orders: mpsc::Sender<Outgoing>,
    /// One permit for each possible lease. Requests wait here for a permit, so
    /// the queue always has room and no lease is lost.
    places: Arc<Semaphore>,
    consumption: watch::Receiver<Consumption>,
    health: watch::Receiver<Health>,
    tier: Tier,
}

/// Receivers of results, by the number of the order.
#[derive(Debug, Default)]
struct Pending {
    last: u64,
    leases: HashMap<u64, LeaseRequest>,
    jobs: HashMap<u64, oneshot::Sender<Result<Exited, Unconfined>>>,
    /// Receivers of exceeded limits, by lease.
    limits: HashMap<u64, oneshot::Sender<LimitExceeded>>,
    /// Repositories that leases read which are being released.
    repositories: HashMap<u64, SharedRepository>,
    /// Commands of leases that are being released.
    late_usages: HashMap<u64, LateUsage>,
}

impl Link {
    /// Creates a link to `spawner` and its driver. The link works only while
    /// the driver runs.
    pub fn new(spawner: Spawner) -> io::Result<(Self, impl Future<Output = SpawnerGone>)> {
        let leases = spawner.abilities.leases as usize;
        let (orders, outgoing) = mpsc::channel(leases * ORDERS_PER_LEASE);
        let (consumption, watched) = watch::channel(Consumption::default());
        let places = Arc::new(Semaphore::new(leases));
        let (health, seen) = watch::channel(Health::default());
        let tier = spawner.abilities.tier;
        let link = Self { orders, places, consumption: watched, health: seen, tier };
        let driver = Driver {
            socket: Socket::new(spawner.control)?,
            waiting: Arc::default(),
            link: link.orders.downgrade(),
            consumption,
            health,
            beats: watch::Sender::new(0),
            root: spawner.abilities.root,
        };
        Ok((link, driver.run(outgoing)))
    }

    /// Usage of all requests. The value changes after each measurement and
    /// when a request is released.
    #[must_use]
    pub fn consumption(&self) -> watch::Receiver<Consumption> {
        self.consumption.clone()
    }

    /// Number of leases that could be given now.
    #[must_use]
    pub fn free_leases(&self) -> usize {
        self.places.available_permits()
    }

    /// The isolation of all leases.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Condition of the spawner and of its leases.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Sets the limits of all requests together; they replace the earlier ones.
    /// If the requests exceed a limit, the one with the largest share is ended.
    pub async fn limit_total(&self, limits: TotalLimits) -> Result<(), SpawnerGone> {
        self.send(Outgoing::LimitTotal(limits)).await
    }

    /// Leases a UID for a request whose commands read `repository` instead of an own one.
    /// Dropping the future ends the wait.
    pub async fn lease(
        &self,
        bounds: Bounds,
        repository: Option<SharedRepository>,
    ) -> Result<Lease, NoLease> {
        self.lease_for(JobKind::Unpack, bounds, repository).await
    }

    /// Leases a UID and starts the first worker, which waits for its plan.
    pub(super) async fn lease_for(
        &self,
        kind: JobKind,
        bounds: Bounds,
        repository: Option<SharedRepository>,
    ) -> Result<Lease, NoLease> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_never_closed| SpawnerGone)?;
        let grants = bounds.grants(repository.as_ref().map(SharedRepository::lease))?;
        let (worker, endpoints) = WorkerHandle::new(kind)?;
        let (answer, leased) = oneshot::channel();
        let request = LeaseRequest { answer, place, repository };
        let order = Outgoing::Lease { request, kind, grants, endpoints };
        self.send(order).await?;
        let lease = leased.await.unwrap_or(Err(SpawnerGone.into()))?;
        Ok(lease.with(worker, bounds))
    }

    pub(super) async fn send(&self, order: Outgoing) -> Result<(), SpawnerGone> {
        self.orders.send(order).await.map_err(|_closed| SpawnerGone)
    }
}

struct Driver {
    socket: Socket,
    waiting: Arc<Mutex<Pending>>,
    /// Weak: otherwise the driver would keep its own queue open for ever.
    link: mpsc::WeakSender<Outgoing>,
    consumption: watch::Sender<Consumption>,
    health: watch::Sender<Health>,
    /// Number of the last heartbeat that the spawner answered.
    beats: watch::Sender<u64>,
    /// Directory of all workspaces.
    root: PathBuf,
}

impl Driver {
    async fn run(self, outgoing: mpsc::Receiver<Outgoing>) -> SpawnerGone {
        // Both directions run concurrently. If one waited for the other, two
        // full buffers would block each other.
        let ended = tokio::select! {
            ended = self.send_all(outgoing) => ended,
            ended = self.receive_all() => ended,
            ended = heartbeat::beat(&self.socket, self.beats.subscribe(), &self.health) => ended,
        };
        if let Err(error) = ended {
            error!(%error, "cannot talk to the spawner");
        }
        SpawnerGone
    }

    async fn send_all(&self, mut outgoing: mpsc::Receiver<Outgoing>) -> io::Result<()> {
        while let Some(order) = outgoing.recv().await {
            let (number, order, descriptors) = self.enter(order);
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let mut rounds = 0;
            loop {
                let attempt = |end: BorrowedFd<'_>| channel::send(end, &order, &descriptors);
                let sent = self.socket.send(attempt).await;
                let lack = sent.as_ref().err().filter(|error| is_transient(error));
                rounds += 1;
                match lack {
                    Some(error) if self.give_up(number, error) => break,
                    Some(_) if rounds < ROUNDS => {}
                    Some(_) | None => break sent?,
                }
            }
        }
        Ok(())
    }

    /// Lets the request of an order fail that cannot be sent. Returns false if no request
    /// waits for its result: without this order, a UID or a limit would be lost.
    fn give_up(&self, number: u64, error: &io::Error) -> bool {
        let mut waiting = self.waiting();
        let (lease, job) = (waiting.leases.remove(&number), waiting.jobs.remove(&number));
        drop(waiting);
        let Some(job) = job else { return false };
        let failure = Unconfined::new(format!(
            "start a worker: its order cannot be sent to the spawner: {error}: {}",
            remedy(error)
        ));
        // The request may have been given up.
        if let Some(LeaseRequest { answer, .. }) = lease {
            let _ = answer.send(Err(failure.into()));
        } else {
            let _ = job.send(Err(failure));
        }
        true
    }

    /// Gives an order its number and registers the receivers of its result.
    fn enter(&self, order: Outgoing) -> (u64, Order, Vec<OwnedFd>) {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        let (what, descriptors) = match order {
            Outgoing::Lease { request, kind, grants, endpoints } => {
                waiting.leases.insert(number, request);
                waiting.jobs.insert(number, endpoints.ended);
                let order = LeaseOrder { job: number, kind: kind.into(), grants };
                (OrderKind::Lease(order), endpoints.descriptors)
            }
            Outgoing::Start { lease, grants, endpoints } => {
                waiting.jobs.insert(number, endpoints.ended);
                let order = StartOrder { lease, job: number, grants };
                (OrderKind::Start(order), endpoints.descriptors)
            }
            Outgoing::LimitTotal(limits) => (OrderKind::LimitTotal(limits), Vec::new()),
            Outgoing::Watch { lease } => (OrderKind::Watch(lease), Vec::new()),
            Outgoing::Stop { lease } => (OrderKind::Stop(lease), Vec::new()),
            Outgoing::Release { order, repository, late_usage } => {
                waiting.late_usages.insert(order.lease, late_usage);
                waiting.repositories.extend(repository.map(|files| (order.lease, files)));
                (OrderKind::Release(order), Vec::new())
            }
        };
        (number, what.into(), descriptors)
    }

    async fn receive_all(&self) -> io::Result<()> {
        let receive = |end: BorrowedFd<'_>| channel::receive::<SpawnerReport>(end);
        while let Some((report, _)) = self.socket.receive(receive).await? {
            match report.event {
                Some(SpawnerEvent::Leased(leased)) => self.leased(leased),
                Some(SpawnerEvent::WorkerEnded(ended)) => self.ended(ended),
                Some(SpawnerEvent::Released(lease)) => self.released(lease),
                Some(SpawnerEvent::Quarantined(lease)) => self.quarantined(&lease),
                Some(SpawnerEvent::Beat(number)) => drop(self.beats.send_replace(number)),
                Some(SpawnerEvent::Orphans(all)) => {
                    self.health.send_modify(|health| health.orphans = all);
                }
                Some(SpawnerEvent::Left(name)) => warn!(
                    name,
                    "cannot remove a leftover of an earlier start from _cmp_server in the work \
                     directory: remove it by hand"
                ),
                Some(SpawnerEvent::LimitExceeded(exceeded)) => self.exceeded(exceeded),
                Some(SpawnerEvent::Usage(report)) => {
                    self.consumption.send_modify(|all| all.update(&report));
                }
                Some(SpawnerEvent::Ready(_) | SpawnerEvent::NotReady(_)) | None => {}
            }
        }
        Ok(())
    }

    fn leased(&self, leased: Leased) {
        let mut waiting = self.waiting();
        let Some(request) = waiting.leases.remove(&leased.job) else { return };
        let LeaseRequest { answer, place, repository } = request;
        let (exceeded, told) = oneshot::channel();
        waiting.limits.insert(leased.lease, exceeded);
        drop(waiting);
        let new = |orders| {
            let limit_watch = LimitWatch::new(told, self.consumption.subscribe());
            Some(Lease::new(leased, orders, place, limit_watch)?.reading(repository))
        };
        let lease = self.link.upgrade().and_then(new);
        // If nobody waits any more, the lease is dropped here and thereby
        // released.
        let _ = answer.send(lease.ok_or(SpawnerGone.into()));
    }

    fn ended(&self, ended: WorkerEnded) {
        let mut waiting = self.waiting();
        let Some(answer) = waiting.jobs.remove(&ended.job) else { return };
        let end = match ended.end {
            Some(WorkerEnd::Exited(exited)) => Ok(exited),
            Some(WorkerEnd::NotStarted(reason)) => Err(Unconfined::new(reason)),
            None => return,
        };
        // The request may have been given up.
        let _ = answer.send(end);
    }

    fn exceeded(&self, exceeded: LimitExceeded) {
        if let Some(answer) = self.waiting().limits.remove(&exceeded.lease) {
            // The request may have been given up.
            let _ = answer.send(exceeded);
        }
    }

    fn released(&self, lease: u64) {
        let mut waiting = self.waiting();
        waiting.limits.remove(&lease);
        let repository = waiting.repositories.remove(&lease);
        let late_usage = waiting.late_usages.remove(&lease);
        drop(waiting);
        // Perhaps its last user, so that its own lease ends.
        drop(repository);
        if let Some(late_usage) = late_usage {
            late_usage.report(self.consumption.borrow().of(lease).unwrap_or_default());
        }
        self.consumption.send_if_modified(|all| all.remove(lease));
        if self.health.send_if_modified(|health| health.heal(lease)) {
            info!(lease, "the rest of a request is gone; its UID is leased again");
        }
    }

    fn quarantined(&self, lease: &Quarantined) {
        let mut reason = String::new();
        self.health.send_modify(|health| reason = health.quarantine(lease, &self.root));
        warn!(
            lease = lease.lease,
            reason,
            "a request has ended incompletely; its UID is not leased again until this succeeds, \
             which is tried again and again"
        );
    }

    fn waiting(&self) -> MutexGuard<'_, Pending> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
