//! What a request has to itself.

use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    bounds::Bounds,
    handle::{Unconfined, WorkerHandle},
    limit_watch::LimitWatch,
    link::{Outgoing, SpawnerGone},
};
use crate::wire::message::Leased;

/// How long processes that are asked to end may take before they are killed.
/// Argo CD waits as long.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Why there is no lease.
#[derive(Debug, Error)]
pub enum NoLease {
    /// Every user is leased, or rests.
    #[error("no user is free for another request")]
    NoneFree,
    /// The supervisor is about to end.
    #[error("the spawner is gone")]
    SpawnerGone,
    /// The sandbox's fault.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

/// A user and a directory that no other live request has.
///
/// Dropping it ends every process of the user, removes the directory and gives
/// the user back. A command that still runs is asked to end first.
#[derive(Debug)]
pub struct Lease {
    id: u64,
    uid: u32,
    orders: mpsc::Sender<Outgoing>,
    /// Room in the queue for the last order, so that dropping never waits.
    last: Option<mpsc::OwnedPermit<Outgoing>>,
    /// What a command that still runs is given to end.
    grace: Duration,
    /// What commands may reach and use.
    bounds: Bounds,
    /// The first worker, until it becomes a command.
    worker: Option<WorkerHandle>,
    /// Tells when the request took more than it may.
    limit_watch: LimitWatch,
    /// Free for the next one when this is dropped.
    _place: OwnedSemaphorePermit,
}

impl Lease {
    /// `None` when the queue has no room, which the number of places rules out.
    pub(super) fn new(
        leased: Leased,
        orders: mpsc::Sender<Outgoing>,
        place: OwnedSemaphorePermit,
        limit_watch: LimitWatch,
    ) -> Option<Self> {
        let Leased { lease: id, uid, .. } = leased;
        let last = orders.clone().try_reserve_owned().ok()?;
        let (last, grace) = (Some(last), Duration::ZERO);
        let (bounds, worker) = (Bounds::default(), None);
        Some(Self { id, uid, orders, last, grace, bounds, worker, limit_watch, _place: place })
    }

    /// With its first worker, and the bounds of all.
    pub(super) fn with(mut self, worker: WorkerHandle, bounds: Bounds) -> Self {
        self.limit_watch.limit(bounds.limits());
        (self.worker, self.bounds) = (Some(worker), bounds);
        self
    }

    /// The user that commands run as.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// What commands may reach and use.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// What tells when the request took more than it may.
    pub(super) fn limit_watch(&mut self) -> &mut LimitWatch {
        &mut self.limit_watch
    }

    /// The first worker, if it has not become a command yet.
    pub(super) fn take_worker(&mut self) -> Option<WorkerHandle> {
        self.worker.take()
    }

    /// The first worker did what came first, and waits for a command.
    pub(super) fn keep_worker(&mut self, worker: WorkerHandle) {
        self.worker = Some(worker);
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) async fn send(&self, order: Outgoing) -> Result<(), SpawnerGone> {
        self.orders.send(order).await.map_err(|_closed| SpawnerGone)
    }

    /// A command begins: if the lease is dropped now, it is asked to end.
    pub(super) fn begin(&mut self) {
        self.grace = STOP_GRACE;
    }

    /// The command ended, or deserves no patience.
    pub(super) fn end(&mut self) {
        self.grace = Duration::ZERO;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let grace_ms = u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX);
        if let Some(last) = self.last.take() {
            last.send(Outgoing::Release { lease: self.id, grace_ms });
        }
    }
}
