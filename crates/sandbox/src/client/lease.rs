//! A request's exclusive UID and workspace.

use std::{mem, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    bounds::Bounds,
    consumption::RequestUsage,
    handle::{Endpoints, SpawnerGone, Unconfined, WorkerHandle},
    late_usage::{LateUsage, Left},
    limit_watch::LimitWatch,
    output::Usage,
};
use crate::wire::{
    message::{Grants, JobKind, Leased, ReleaseOrder},
    usage::TotalLimits,
};

/// Time between SIGTERM and SIGKILL for a command, unless its bounds tell
/// another.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Reasons why there is no lease.
#[derive(Debug, Error)]
pub enum NoLease {
    /// The supervisor is about to end too.
    #[error(transparent)]
    SpawnerGone(#[from] SpawnerGone),
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

/// An order to be sent, with the receivers of its result.
#[derive(Debug)]
pub(super) enum Outgoing {
    Lease {
        request: LeaseRequest,
        kind: JobKind,
        grants: Grants,
        endpoints: Endpoints,
    },
    Start {
        lease: u64,
        grants: Grants,
        endpoints: Endpoints,
    },
    Watch {
        lease: u64,
    },
    LimitTotal(TotalLimits),
    Stop {
        lease: u64,
    },
    Release {
        order: ReleaseOrder,
        /// Its processes may read it until they are gone.
        repository: Option<SharedRepository>,
        late_usage: LateUsage,
    },
}

/// A request that waits for a lease, with its permit.
#[derive(Debug)]
pub(super) struct LeaseRequest {
    pub(super) answer: oneshot::Sender<Result<Lease, NoLease>>,
    pub(super) place: OwnedSemaphorePermit,
    /// The first worker may read it, even if nobody waits for the lease any more.
    pub(super) repository: Option<SharedRepository>,
}

/// A UID and a directory that no other running request has.
///
/// When it is dropped, the spawner kills every process of the UID, removes the
/// directory, and reuses the UID. If a command is still running, it gets
/// SIGTERM first.
#[derive(Debug)]
pub struct Lease {
    id: u64,
    uid: u32,
    /// Only the spawner reports the ends of its commands.
    is_alone: bool,
    orders: mpsc::Sender<Outgoing>,
    /// Reserved room in the queue for the order to release, so that `drop`
    /// never waits.
    last: Option<mpsc::OwnedPermit<Outgoing>>,
    /// Time between SIGTERM and SIGKILL if the lease is dropped now.
    grace: Duration,
    /// A command may have started, and has not ended by itself; also before the first one.
    is_cut_off: bool,
    /// Access and limits of all commands.
    bounds: Bounds,
    /// The repository that they read instead of an own one.
    repository: Option<SharedRepository>,
    /// The worker that unpacks the archive, waits for a command, or has one.
    worker: Option<WorkerHandle>,
    /// HOME has nothing yet of what only the commands may read.
    is_unfilled: bool,
    /// Reports the usage of the request, and that it exceeded a limit.
    limit_watch: LimitWatch,
    /// Usage of a command for whose end nobody waits.
    late_usage: LateUsage,
    /// Place in the semaphore; dropping it admits the next request.
    _place: OwnedSemaphorePermit,
}

/// The repository of a lease under which no command runs. Other leases can read its
/// files; nobody can change them.
///
/// The files are removed when the last clone is dropped, and every lease that could
/// read them has been released.
#[derive(Clone, Debug)]
pub struct SharedRepository(Arc<Lease>);

impl SharedRepository {
    /// ID of the lease that holds the files.
    pub(super) fn lease(&self) -> u64 {
        self.0.id
    }
}

impl Lease {
    /// Returns `None` if the queue has no room. The number of places prevents
    /// that.
    pub(super) fn new(
        leased: Leased,
        orders: mpsc::Sender<Outgoing>,
        place: OwnedSemaphorePermit,
        limit_watch: LimitWatch,
    ) -> Option<Self> {
        let Leased { lease: id, uid, is_alone, .. } = leased;
        let last = orders.clone().try_reserve_owned().ok()?;
        let (last, grace) = (Some(last), Duration::ZERO);
        let (bounds, repository, worker) = (Bounds::default(), None, None);
        Some(Self {
            id,
            uid,
            is_alone,
            orders,
            last,
            grace,
            is_cut_off: true,
            bounds,
            repository,
            worker,
            is_unfilled: false,
            limit_watch,
            late_usage: LateUsage::default(),
            _place: place,
        })
    }

    /// Adds the repository that its workers read instead of an own one.
    pub(super) fn reading(mut self, repository: Option<SharedRepository>) -> Self {
        self.repository = repository;
        self
    }

    /// Adds the first worker, and the access and limits of all commands.
    pub(super) fn with(mut self, worker: WorkerHandle, bounds: Bounds) -> Self {
        self.worker = Some(worker);
        self.bound(bounds);
        self
    }

    /// Sets the access and limits of all later commands.
    fn bound(&mut self, bounds: Bounds) {
        self.limit_watch.limit(bounds.limits());
        self.bounds = bounds;
    }

    /// Lets other leases read the repository, which was unpacked for them. Waits until
    /// the worker that unpacked it has ended.
    pub async fn share(mut self) -> Result<SharedRepository, Unconfined> {
        self.dismiss_worker().await?;
        Ok(SharedRepository(Arc::new(self)))
    }

    /// Keeps the repository, which was unpacked for other leases, for commands of this one
    /// with these bounds. Waits until the worker that unpacked it has ended: it could only
    /// unpack.
    pub async fn keep_own(mut self, bounds: Bounds) -> Result<Self, Unconfined> {
        self.dismiss_worker().await?;
        self.bound(bounds);
        self.is_unfilled = true;
        Ok(self)
    }

    async fn dismiss_worker(&mut self) -> Result<(), Unconfined> {
        match self.worker.take() {
            Some(worker) => worker.dismiss().await,
            None => Ok(()),
        }
    }

    /// UID that commands run under.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Usage of the request as measured last; zeros before the first
    /// measurement. The most recent changes may be missing.
    #[must_use]
    pub fn usage(&self) -> RequestUsage {
        self.limit_watch.usage(self.id).unwrap_or_default()
    }

    /// The usage of the next command beyond [`Output::usage`](super::output::Output::usage),
    /// told when the lease has been released; never if the command ended by itself.
    pub fn late_usage(&mut self) -> oneshot::Receiver<Usage> {
        self.late_usage.receiver()
    }

    /// Marks a command as one whose end nobody awaits, or as one with children.
    pub(super) fn leave_command(&mut self, left: Left) {
        self.late_usage.leave(left);
    }

    /// Keeps the usage of a command that has ended.
    pub(super) fn record_usage(&mut self, usage: Usage) {
        self.late_usage.record(usage);
    }

    /// Access and limits of all commands.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The part of its bounds that the spawner has to set up for a worker.
    pub(super) fn grants(&self) -> Result<Grants, Unconfined> {
        self.bounds.grants(self.repository.as_ref().map(SharedRepository::lease))
    }

    /// True if only the spawner reports the ends of its commands.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn limit_watch(&mut self) -> &mut LimitWatch {
        &mut self.limit_watch
    }

    /// Takes the worker that unpacks the archive, waits for a command, or has one.
    pub(super) fn take_worker(&mut self) -> Option<WorkerHandle> {
        self.worker.take()
    }

    /// Returns true once if the next worker has to fill HOME.
    pub(super) fn take_unfilled(&mut self) -> bool {
        mem::take(&mut self.is_unfilled)
    }

    /// Stores such a worker.
    pub(super) fn keep_worker(&mut self, worker: WorkerHandle) {
        self.worker = Some(worker);
    }

    /// ID of the lease, as in [`crate::Consumption`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    pub(super) async fn send(&self, order: Outgoing) -> Result<(), SpawnerGone> {
        self.orders.send(order).await.map_err(|_closed| SpawnerGone)
    }

    /// Marks a command as one that may start: until it has ended by itself, the files
    /// that it writes are not whole.
    pub(super) fn incomplete(&mut self) {
        self.is_cut_off = true;
    }

    /// Marks a command as running: if the lease is dropped now, the command
    /// gets SIGTERM and some time to end.
    pub(super) fn begin(&mut self) {
        self.grace = self.bounds.stop_grace.unwrap_or(STOP_GRACE);
    }

    /// Marks the command as ended by itself: the files that it wrote are whole.
    pub(super) fn complete(&mut self) {
        self.is_cut_off = false;
    }

    /// Marks the command as ended, or as one to be killed at once.
    pub(super) fn end(&mut self) {
        self.grace = Duration::ZERO;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let grace_ms = u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX);
        if let Some(last) = self.last.take() {
            let order = ReleaseOrder { lease: self.id, grace_ms, is_cut_off: self.is_cut_off };
            let (repository, late_usage) =
                (self.repository.take(), mem::take(&mut self.late_usage));
            last.send(Outgoing::Release { order, repository, late_usage });
        }
    }
}
