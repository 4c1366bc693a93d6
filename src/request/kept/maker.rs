//! Decompresses an archive that is to be kept, while it arrives.

use std::{fs::File, io::Write};

use cmp_archive::{Entry, EntryCounter, EntryKind, EntryPath, Reader, Sink, UnpackLimits};
use rustix::fs::{SealFlags, fcntl_add_seals};
use tokio::sync::OwnedSemaphorePermit;

use super::{ArchiveMemory, Checksum, KeptArchive, KeptArchives, Listing, Pages};
use crate::{
    request::{deadline::Deadline, piece_thread::PieceThread},
    volume::sealable,
};

/// Memory in bytes that an archive takes at a time, ahead of its need.
const STEP: u64 = 1 << 20;

/// The right to decompress an archive to keep it, which one request at a time has.
#[derive(Debug)]
pub(in crate::request) struct MakerTurn {
    pub(super) shelf: KeptArchives,
    pub(super) checksum: Checksum,
    /// Held until the archive is kept.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Decompresses an archive to keep it.
#[derive(Debug)]
pub(in crate::request) struct Maker {
    turn: MakerTurn,
    thread: PieceThread<Option<Box<Reader<Recorder>>>>,
}

/// An archive that cannot be kept: it is too large, or would be refused anyway.
#[derive(Debug)]
struct Unfit;

impl Maker {
    /// Begins; `None` if the kernel refuses the memory.
    pub(in crate::request) fn begin(
        turn: MakerTurn,
        limits: UnpackLimits,
        deadline: Deadline,
    ) -> Option<Self> {
        let recorder = Recorder {
            file: sealable("archive").ok()?.into(),
            length: 0,
            start: 0,
            listing: Listing::default(),
            counter: EntryCounter::new(limits),
            memory: ArchiveMemory::new(turn.shelf.clone()),
        };
        let reader = Some(Box::new(Reader::new(recorder)));
        let thread = PieceThread::new(reader, turn.shelf.0.threads.clone(), deadline);
        Some(Self { turn, thread })
    }

    /// Reads the next piece.
    pub(in crate::request) async fn push(&mut self, piece: &[u8]) {
        // The caller notices the deadline too.
        if let Some(Some(_)) = self.thread.reader().await {
            self.thread.read(piece, push).await;
        }
    }

    /// Keeps the archive, which was sent completely and has the stated checksum.
    pub(in crate::request) async fn finish(self) {
        let Self { turn: MakerTurn { shelf, checksum, .. }, thread } = self;
        match thread.finish().await.flatten().and_then(|reader| reader.finish().ok()?.seal()) {
            Some(archive) => shelf.keep(checksum, archive),
            None => shelf.give_up(checksum),
        }
    }
}

/// Reads a piece. The reader is gone after an error.
fn push(reader: &mut Option<Box<Reader<Recorder>>>, piece: &[u8]) {
    if let Some(Err(_unfit)) = reader.as_mut().map(|reader| reader.push(piece)) {
        *reader = None;
    }
}

/// Records the decompressed bytes and their entries.
#[derive(Debug)]
struct Recorder {
    file: File,
    length: u64,
    /// Position of the next entry.
    start: u64,
    listing: Listing,
    counter: EntryCounter,
    memory: ArchiveMemory,
}

impl Recorder {
    /// The archive, which nobody can change from here on.
    fn seal(self) -> Option<KeptArchive> {
        let Self { file, length, listing, memory, .. } = self;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).ok()?;
        Some(KeptArchive { pages: Pages::of(file), length, listing, _memory: memory })
    }

    /// Takes memory for more bytes of the archive.
    fn charge(&mut self, more: u64) -> Result<(), Unfit> {
        let needed = self.length + more + self.listing.heap_bytes() as u64;
        self.memory.grow(needed.next_multiple_of(STEP)).then_some(()).ok_or(Unfit)
    }
}

impl Sink for Recorder {
    type Error = Unfit;

    fn decompressed(&mut self, piece: &[u8]) -> Result<(), Unfit> {
        self.charge(piece.len() as u64)?;
        self.file.write_all(piece).map_err(|_error| Unfit)?;
        self.length += piece.len() as u64;
        Ok(())
    }

    fn starts(&mut self, position: u64) {
        self.start = position;
    }

    /// Refuses what the worker would refuse, because it does not see all entries.
    fn entry(&mut self, entry: &Entry) -> Result<(), Unfit> {
        if entry.is_root() {
            return self.counter.skip(entry).map_err(|_refusal| Unfit);
        }
        self.counter.count(entry).map_err(|_refusal| Unfit)?;
        let path = match EntryPath::new(&entry.name) {
            Err(_escape) if matches!(entry.kind, EntryKind::Other { .. }) => EntryPath::default(),
            path => path.map_err(|_escape| Unfit)?,
        };
        if entry.kind == EntryKind::Link && path.parent().join(&entry.link).is_err() {
            return Err(Unfit);
        }
        self.listing.add(self.start, &path, entry.kind);
        Ok(())
    }

    fn data(&mut self, _piece: &[u8]) -> Result<(), Unfit> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unfit> {
        Ok(())
    }

    fn extension(&mut self, size: u64) -> Result<(), Unfit> {
        self.counter.count_dropped(size).map_err(|_refusal| Unfit)
    }
}
