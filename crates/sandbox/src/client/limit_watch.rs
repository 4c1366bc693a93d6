//! The report that a request exceeded one of its limits.

use std::future::pending;

use tokio::sync::oneshot;

use super::run::Termination;
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Waits until a request took more than it may.
#[derive(Debug)]
pub(super) struct LimitWatch {
    told: Option<oneshot::Receiver<ExceededLimit>>,
    limits: RequestLimits,
}

impl LimitWatch {
    /// `told` is where the spawner's word of it arrives.
    pub(super) fn new(told: oneshot::Receiver<ExceededLimit>) -> Self {
        Self { told: Some(told), limits: RequestLimits::default() }
    }

    /// What a request may take, for whoever reads of the excess.
    pub(super) fn limit(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Resolves once, if it has. May be left and called again.
    pub(super) async fn exceeded(&mut self) -> Termination {
        let Some(told) = &mut self.told else { return pending().await };
        let told = told.await;
        self.told = None;
        match told {
            Ok(what) => Termination::LimitExceeded { what, limit: self.limits.limit(what) },
            // The lease ended, or the spawner: others tell of that.
            Err(_closed) => pending().await,
        }
    }
}
