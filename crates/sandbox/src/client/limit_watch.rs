//! Usage of a request, and the report that it exceeded one of its limits.

use std::future::pending;

use tokio::sync::{oneshot, watch};

use super::{
    consumption::{Consumption, RequestUsage},
    run::Termination,
};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Receiver of both.
#[derive(Debug)]
pub(super) struct LimitWatch {
    told: Option<oneshot::Receiver<ExceededLimit>>,
    limits: RequestLimits,
    consumption: watch::Receiver<Consumption>,
}

impl LimitWatch {
    /// The report of an exceeded limit arrives through `told`.
    pub(super) fn new(
        told: oneshot::Receiver<ExceededLimit>,
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
        let what = self.told.as_mut()?.try_recv().ok()?;
        self.told = None;
        Some(self.termination(what))
    }

    fn termination(&self, what: ExceededLimit) -> Termination {
        Termination::LimitExceeded { what, limit: self.limits.limit(what) }
    }

    /// Resolves when the request has exceeded a limit; at most once. The future
    /// can be dropped and the method called again.
    pub(super) async fn exceeded(&mut self) -> Termination {
        let Some(told) = &mut self.told else { return pending().await };
        let told = told.await;
        self.told = None;
        match told {
            Ok(what) => self.termination(what),
            // The lease or the spawner has ended, which is reported elsewhere.
            Err(_closed) => pending().await,
        }
    }
}
