//! Memory for copies, which all requests share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::MAX_ARCHIVE;
use crate::budget::show;

/// Bytes that are counted at once.
const UNIT: usize = 64 << 10;

/// Units for the copies of all running requests together: 8 MiB, which are part of
/// the memory that the budget leaves to the supervisor.
const UNITS: usize = 128;

/// Memory for copies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Copies(Arc<Semaphore>);

impl Default for Copies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNITS)))
    }
}

/// Bytes that are counted.
#[derive(Debug)]
pub struct Copied {
    /// The bytes.
    pub bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The reason why there is no copy of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCopied {
    /// It is larger than bundles may hold.
    Large,
    /// Other requests had the memory.
    NoRoom,
    /// It did not arrive completely.
    Incomplete,
}

impl NotCopied {
    /// The reason, for people.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::Large => format!("it is larger than {}", show(MAX_ARCHIVE as u64)),
            Self::NoRoom => "other requests had the memory for copies".to_owned(),
            Self::Incomplete => "it did not arrive completely".to_owned(),
        }
    }
}

impl Copies {
    /// Counts a copy, if there is room for it.
    pub(super) fn take(&self, bytes: Vec<u8>) -> Option<Copied> {
        let units = u32::try_from(bytes.len().div_ceil(UNIT)).ok()?;
        let room = Arc::clone(&self.0).try_acquire_many_owned(units).ok()?;
        Some(Copied { bytes, _room: Some(room) })
    }
}

/// An archive that arrives, in pieces of one unit.
#[derive(Debug)]
pub struct ArchiveCopy {
    copies: Copies,
    pieces: Vec<Copied>,
    length: usize,
    state: Result<(), NotCopied>,
}

impl ArchiveCopy {
    pub(super) fn new(copies: Copies) -> Self {
        Self { copies, pieces: Vec::new(), length: 0, state: Err(NotCopied::Incomplete) }
    }

    /// Copies a chunk.
    pub fn push(&mut self, mut chunk: &[u8]) {
        if !matches!(self.state, Err(NotCopied::Incomplete)) {
            return;
        }
        self.length += chunk.len();
        if self.length > MAX_ARCHIVE {
            return self.give_up(NotCopied::Large);
        }
        while !chunk.is_empty() {
            let is_full = self.pieces.last().is_none_or(|piece| piece.bytes.len() == UNIT);
            if is_full {
                let Ok(room) = Arc::clone(&self.copies.0).try_acquire_owned() else {
                    return self.give_up(NotCopied::NoRoom);
                };
                let bytes = Vec::with_capacity(UNIT);
                self.pieces.push(Copied { bytes, _room: Some(room) });
            }
            let Some(piece) = self.pieces.last_mut() else { return };
            let (now, later) = chunk.split_at(chunk.len().min(UNIT - piece.bytes.len()));
            piece.bytes.extend_from_slice(now);
            chunk = later;
        }
    }

    /// Marks the archive as complete.
    pub fn complete(&mut self) {
        if self.state == Err(NotCopied::Incomplete) {
            self.state = Ok(());
        }
    }

    /// The complete archive in pieces, or the reason why there is none.
    pub fn pieces(&self) -> Result<impl Iterator<Item = &[u8]>, NotCopied> {
        self.state.map(|()| self.pieces.iter().map(|piece| piece.bytes.as_slice()))
    }

    fn give_up(&mut self, reason: NotCopied) {
        self.pieces = Vec::new();
        self.state = Err(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(copies: &Copies, bytes: usize) -> ArchiveCopy {
        let mut archive = ArchiveCopy::new(copies.clone());
        vec![7; bytes].chunks(1000).for_each(|chunk| archive.push(chunk));
        archive.complete();
        archive
    }

    fn length(archive: &ArchiveCopy) -> Result<usize, NotCopied> {
        archive.pieces().map(|pieces| pieces.map(<[u8]>::len).sum())
    }

    #[test]
    fn an_archive_is_copied_up_to_its_limit() {
        let copies = Copies::default();
        assert_eq!(length(&archive(&copies, MAX_ARCHIVE)), Ok(MAX_ARCHIVE));
        assert_eq!(length(&archive(&copies, MAX_ARCHIVE + 1)), Err(NotCopied::Large));
        assert_eq!(length(&ArchiveCopy::new(copies)), Err(NotCopied::Incomplete));
    }

    #[test]
    fn copies_share_their_memory_and_give_it_back() {
        let copies = Copies::default();
        let two = [archive(&copies, MAX_ARCHIVE), archive(&copies, MAX_ARCHIVE)];
        assert_eq!(length(&archive(&copies, 1)), Err(NotCopied::NoRoom));
        assert!(copies.take(vec![1]).is_none());
        drop(two);
        assert_eq!(length(&archive(&copies, 1)), Ok(1));
        assert_eq!(copies.0.available_permits(), UNITS);
    }
}
