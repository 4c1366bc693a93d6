//! Usage of a request, and the report that it exceeded one of its limits.

use std::future::pending;

use tokio::sync::{oneshot, watch};

use super::{
    consumption::{Consumption, RequestUsage},
    output::Termination,
};
use crate::wire::{exceeded::LimitExceeded, message::RequestLimits};

/// Tells a request's usage, and the limit that it exceeded.
#[derive(Debug)]
pub(super) struct LimitWatch {
    told: Option<oneshot::Receiver<LimitExceeded>>,
    limits: RequestLimits,
    consumption: watch::Receiver<Consumption>,
}

impl LimitWatch {
    /// The report of an exceeded limit arrives through `told`.
    pub(super) fn new(
        told: oneshot::Receiver<LimitExceeded>,
        consumption: watch::Receiver<Consumption>,
    ) -> Self {
        Self { told: Some(told), limits: RequestLimits::default(), consumption }
    }

    /// Sets the limits, which the result states.
    pub(super) fn limit(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Usage of the request with this lease, as measured last.
    pub(super) fn usage(&self, lease: u64) -> Option<RequestUsage> {
        self.consumption.borrow().of(lease)
    }

    /// The limit that the request has exceeded, if a report has arrived.
    pub(super) fn reported(&mut self) -> Option<Termination> {
        let told = self.told.as_mut()?.try_recv().ok()?;
        self.told = None;
        Some(self.termination(told))
    }

    fn termination(&self, told: LimitExceeded) -> Termination {
        let what = told.what();
        let limit = told.limit.or(self.limits.limit(what));
        Termination::LimitExceeded { what, limit, used: told.used }
    }

    /// Resolves when the request has exceeded a limit; at most once. The future
    /// can be dropped and the method called again.
    pub(super) async fn exceeded(&mut self) -> Termination {
        let Some(told) = &mut self.told else { return pending().await };
        let told = told.await;
        self.told = None;
        match told {
            Ok(told) => self.termination(told),
            // The lease or the spawner has ended, which is reported elsewhere.
            Err(_closed) => pending().await,
        }
    }
}
