//! Writes an archive's files to the work volume while it arrives.

use cmp_sandbox::Unpacking;

use super::{checksum::PieceSink, deadline::Deadline};
use crate::volume::{FullVolume, LastSpace, WorkVolume};

/// Bytes of an archive between two looks at the volume.
const STRIDE: usize = 64 << 10;

/// Passes an archive to the worker that unpacks it, as long as there is space.
#[derive(Debug)]
pub(super) struct VolumeSink<'r> {
    unpacking: Unpacking<'r>,
    volume: &'r WorkVolume,
    deadline: Deadline,
    /// Bytes since the last look.
    unseen: usize,
    full: Option<FullVolume>,
    turn: Option<LastSpace>,
}

impl<'r> VolumeSink<'r> {
    pub(super) fn new(
        unpacking: Unpacking<'r>,
        volume: &'r WorkVolume,
        deadline: Deadline,
    ) -> Self {
        Self { unpacking, volume, deadline, unseen: 0, full: None, turn: None }
    }

    /// The worker, unless the volume was full, and the turn that the request has.
    pub(super) fn finish(self) -> Result<(Unpacking<'r>, Option<LastSpace>), FullVolume> {
        self.full.map_or(Ok((self.unpacking, self.turn)), Err)
    }

    async fn look(&mut self) {
        self.unseen = 0;
        self.full = self.volume.go_on(&mut self.turn, self.deadline.instant()).await.err();
    }
}

impl PieceSink for VolumeSink<'_> {
    async fn take(&mut self, piece: &[u8]) -> bool {
        self.unseen += piece.len();
        if self.unseen >= STRIDE {
            self.look().await;
        }
        // The worker is asked for its own error once the archive is complete.
        self.full.is_none() && self.unpacking.write(piece).await.is_ok()
    }
}
