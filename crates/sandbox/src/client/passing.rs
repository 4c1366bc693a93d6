//! The report that a request exceeded one of its limits.

use std::future::pending;

use tokio::sync::oneshot;

use super::run::End;
use crate::wire::{excess::Excess, message::Ceilings};

/// Waits until a request took more than it may.
#[derive(Debug)]
pub(super) struct Passing {
    told: Option<oneshot::Receiver<Excess>>,
    ceilings: Ceilings,
}

impl Passing {
    /// `told` is where the spawner's word of it arrives.
    pub(super) fn new(told: oneshot::Receiver<Excess>) -> Self {
        Self { told: Some(told), ceilings: Ceilings::default() }
    }

    /// What a request may take, for whoever reads of the excess.
    pub(super) fn limit(&mut self, ceilings: Ceilings) {
        self.ceilings = ceilings;
    }

    /// Resolves once, if it has. May be left and called again.
    pub(super) async fn passed(&mut self) -> End {
        let Some(told) = &mut self.told else { return pending().await };
        let told = told.await;
        self.told = None;
        match told {
            Ok(what) => End::Excess { what, limit: self.ceilings.limit(what) },
            // The lease ended, or the spawner: others tell of that.
            Err(_closed) => pending().await,
        }
    }
}
