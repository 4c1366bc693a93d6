//! Waits for the report that a request exceeded one of its limits.

use std::future::pending;

use tokio::sync::oneshot;

use super::run::Termination;
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Receiver of the report.
#[derive(Debug)]
pub(super) struct LimitWatch {
    told: Option<oneshot::Receiver<ExceededLimit>>,
    limits: RequestLimits,
}

impl LimitWatch {
    /// The spawner's report arrives through `told`.
    pub(super) fn new(told: oneshot::Receiver<ExceededLimit>) -> Self {
        Self { told: Some(told), limits: RequestLimits::default() }
    }

    /// Sets the limits, which the result states.
    pub(super) fn limit(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Resolves when the request has exceeded a limit; at most once. The future
    /// can be dropped and the method called again.
    pub(super) async fn exceeded(&mut self) -> Termination {
        let Some(told) = &mut self.told else { return pending().await };
        let told = told.await;
        self.told = None;
        match told {
            Ok(what) => Termination::LimitExceeded { what, limit: self.limits.limit(what) },
            // The lease or the spawner has ended, which is reported elsewhere.
            Err(_closed) => pending().await,
        }
    }
}
