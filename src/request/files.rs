//! Writes an archive's files to the work volume while it arrives.

use std::ops::Range;

use cmp_sandbox::Unpacking;

use super::{
    checksum::PieceSink,
    kept::{KeptArchive, KeptArchives, Maker},
};
use crate::volume::WorkVolume;

/// Bytes of an archive between two looks at the volume.
const STRIDE: usize = 64 << 10;

/// Decompressed bytes between two looks at the volume. Most of them become files.
const DECOMPRESSED_STRIDE: u64 = 1 << 20;

/// Passes an archive to the worker that unpacks it, and gives it space that is only kept
/// for speed.
#[derive(Debug)]
pub(super) struct VolumeSink<'r> {
    pub(super) unpacking: Unpacking<'r>,
    volume: &'r WorkVolume,
    /// Has files that nobody uses at the moment.
    pub(super) kept: &'r KeptArchives,
    /// Bytes since the last look.
    unseen: usize,
}

impl<'r> VolumeSink<'r> {
    pub(super) fn new(
        unpacking: Unpacking<'r>,
        volume: &'r WorkVolume,
        kept: &'r KeptArchives,
    ) -> Self {
        Self { unpacking, volume, kept, unseen: 0 }
    }

    /// Passes on parts of a kept archive.
    pub(super) async fn send(&mut self, archive: &KeptArchive, parts: &[Range<u64>]) {
        self.unpacking.expect_parts();
        for part in parts {
            let mut start = part.start;
            while start < part.end {
                let end = part.end.min(start + DECOMPRESSED_STRIDE);
                self.look().await;
                // The worker is asked for its own error afterwards.
                if self.unpacking.send(archive.file(), start..end).await.is_err() {
                    return;
                }
                start = end;
            }
        }
    }

    async fn look(&mut self) {
        self.unseen = 0;
        self.kept.give_space(self.volume).await;
    }
}

impl PieceSink for VolumeSink<'_> {
    async fn take(&mut self, piece: &[u8]) -> bool {
        self.unseen += piece.len();
        if self.unseen >= STRIDE {
            self.look().await;
        }
        // The worker is asked for its own error once the archive is complete.
        self.unpacking.write(piece).await.is_ok()
    }
}

/// Passes an archive to the worker and, as long as the worker reads, to the maker of
/// a kept one.
#[derive(Debug)]
pub(super) struct KeepingSink<'r> {
    pub(super) files: VolumeSink<'r>,
    /// `None` if it has not got the whole archive.
    pub(super) maker: Option<Maker>,
}

impl PieceSink for KeepingSink<'_> {
    async fn take(&mut self, piece: &[u8]) -> bool {
        let goes_on = self.files.take(piece).await;
        match &mut self.maker {
            Some(maker) if goes_on => maker.push(piece).await,
            Some(_) | None => self.maker = None,
        }
        goes_on
    }
}
