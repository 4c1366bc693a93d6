//! An archive that is complete, and perhaps not unpacked yet.

use cmp_sandbox::{Lease, NotUnpacked};

use super::{
    defaults::CommandDefaults, excess::Excess, kept::Unseen, progress::RequestContext,
    receive_error::ReceiveError,
};
use crate::volume::WorkVolume;

/// An archive whose checksum is right, and that a worker unpacks.
///
/// Its worker can be told a command meanwhile, which it starts at once when the files
/// are there. The request fails if its [`end`](Self::end) does.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Entries that the worker does not see.
    pub(super) unseen: Unseen,
    /// Processes that the kernel had killed for lack of memory before.
    pub(super) killed: u64,
    pub(super) volume: WorkVolume,
}

impl Arrival {
    /// Waits until the archive is unpacked. A full volume is not the archive's fault.
    pub(super) async fn end(
        self,
        (lease, defaults): (&mut Lease, &CommandDefaults),
        context: &mut RequestContext,
    ) -> Result<(), ReceiveError> {
        match context.deadline.limit(lease.unpacked()).await? {
            Ok(unpacked) => {
                context.progress.unpacked = Some(self.unseen.add_to(unpacked));
                Ok(())
            }
            Err(NotUnpacked::Unconfined(error)) if error.is_full() => {
                Err(self.volume.full(&error.to_string()).await.into())
            }
            Err(NotUnpacked::Unconfined(error)) => Err(error.into()),
            Err(NotUnpacked::Refused(text)) => Err(ReceiveError::Archive(text)),
            Err(NotUnpacked::Killed(end)) => Err(ReceiveError::Killed {
                excess: end
                    .and_then(|end| Excess::of(end, &defaults.budget.borrow()))
                    .map(Box::new),
                oom: defaults.oom.since(self.killed),
            }),
        }
    }
}
