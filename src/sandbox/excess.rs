//! What a request took too much of.

use std::{fmt, future::pending};

use tokio::sync::oneshot;

use super::{message::Ceilings, run::End};

/// What all processes and files of a request took too much of together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Memory.
    Memory,
    /// Bytes on disk.
    Disk,
    /// Files and directories.
    Files,
    /// Nobody knows: it could not be measured, look after look.
    Unmeasured,
}

impl Excess {
    /// What was the matter, in words; `limit` is that of the excess.
    #[must_use]
    pub fn words(self, limit: u64) -> impl fmt::Display {
        fmt::from_fn(move |text| match self {
            Self::Memory => write!(text, "its processes took more than {limit} bytes of memory"),
            Self::Disk => write!(text, "its files took more than {limit} bytes of disk"),
            Self::Files => write!(text, "it had more than {limit} files and directories"),
            Self::Unmeasured => text.write_str(
                "what it took of memory and disk could not be measured: it hides processes or \
                 files, has too many open, or moves directories all the time",
            ),
        })
    }
}

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
