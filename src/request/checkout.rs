//! The files of a request, and the UID that its commands run under.

use std::sync::Arc;

use bytes::Bytes;
use cmp_sandbox::{LastPart, Lease, NotUnpacked};

use super::{
    defaults::CommandDefaults,
    excess::Excess,
    kept::{KeptArchives, KeptRepository, Unseen},
    progress::RequestContext,
    receive_error::ReceiveError,
};
use crate::volume::WorkVolume;

/// The files of a request, which its worker may still unpack.
///
/// The worker can be told a command meanwhile, which it starts at once when the files
/// are there. The request fails if [`unpacked`](Self::unpacked) does.
#[derive(Debug)]
pub(super) struct Checkout {
    pub(super) lease: Lease,
    pub(super) defaults: Arc<CommandDefaults>,
    /// `None` if the files are there.
    pub(super) arrival: Option<Arrival>,
    /// The last part of the volume. The turn to use it ends with the request, while the files
    /// are being removed.
    pub(super) last_part: Option<LastPart>,
    /// The repository that the request reads, if it has none of its own.
    pub(super) repository: Option<Arc<KeptRepository>>,
}

/// An archive whose checksum is right, and that a worker unpacks.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Entries that the worker does not see.
    pub(super) unseen: Unseen,
    /// Processes that the kernel had killed for lack of memory before.
    pub(super) killed: u64,
    pub(super) volume: WorkVolume,
    /// It remembers the size of the archive with this checksum.
    pub(super) kept: KeptArchives,
    pub(super) checksum: Bytes,
}

impl Checkout {
    /// The files of a lease, of which there are none yet.
    pub(super) fn new(lease: Lease, defaults: &Arc<CommandDefaults>) -> Self {
        let defaults = Arc::clone(defaults);
        Self { lease, defaults, arrival: None, last_part: None, repository: None }
    }

    /// Waits until the archive is unpacked. A full volume is not the archive's fault.
    pub(super) async fn unpacked(
        &mut self,
        context: &mut RequestContext,
    ) -> Result<(), ReceiveError> {
        let Some(arrival) = self.arrival.take() else { return Ok(()) };
        let Arrival { unseen, killed, volume, kept, checksum } = arrival;
        match context.deadline.limit(self.lease.unpacked()).await? {
            Ok(unpacked) => {
                let unpacked = unseen.add_to(unpacked);
                kept.unpacked(&checksum, &unpacked);
                context.progress.unpacked = Some(unpacked);
                Ok(())
            }
            Err(NotUnpacked::AlmostFull(reason)) => Err(volume.almost_full(reason).await.into()),
            Err(NotUnpacked::Unconfined(error)) if error.is_full() => {
                Err(volume.full(&error.to_string()).await.into())
            }
            Err(NotUnpacked::Unconfined(error)) => Err(error.into()),
            Err(NotUnpacked::Refused(text)) => Err(ReceiveError::Archive(text)),
            Err(NotUnpacked::Killed(end)) => Err(ReceiveError::Killed {
                excess: end
                    .and_then(|end| Excess::of(end, &self.defaults.budget.borrow()))
                    .map(Box::new),
                oom: self.defaults.oom.since(killed),
            }),
        }
    }
}
