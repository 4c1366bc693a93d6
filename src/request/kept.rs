//! Archives that several requests send, kept decompressed.
//!
//! Argo CD sends the whole repository for each application of a commit. From the
//! second request on, the supervisor keeps what it has decompressed, and later
//! requests with the same checksum write their files from there, while they send all
//! bytes themselves. No command starts before these have the checksum. Nothing that
//! a worker made is ever kept.

mod listing;
mod maker;
mod pages;
mod repository;
mod share;

use std::{
    collections::HashMap,
    iter,
    num::NonZeroUsize,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use cmp_archive::Selection;
use cmp_sandbox::Unpacked;
use lru::LruCache;
use tokio::{sync::Semaphore, time::Instant};

pub use self::share::ArchiveShare;
use self::{
    listing::Listing,
    pages::Pages,
    repository::{RepositoryKey, Unpacking},
};
pub(super) use self::{
    maker::{Maker, MakerTurn},
    repository::{KeptRepository, Repository, Turn},
};
use super::{
    deadline::{Deadline, DeadlinePassed},
    header::{Checksum, RequestHeader},
    index::IndexResources,
    threads::Threads,
};

/// Smallest compressed archive to keep, in bytes. Decompressing smaller ones takes
/// less than 2 ms.
const LEAST: u64 = 256 << 10;

/// An archive is kept this long after its last use, and its checksum remembered this
/// long after its last request.
const IDLE: Duration = Duration::from_mins(1);

/// Bytes of an entry in a decompressed archive beside its contents, at least.
const ENTRY_HEADER: u64 = 512;

/// Checksums that are remembered.
const MAX_SEEN: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Archives that are decompressed to be kept, at a time.
const MAKERS: usize = 1;

/// Repositories that are unpacked for several requests, at a time.
const UNPACKERS: usize = 4;

/// The archives that are kept. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeptArchives(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    table: Mutex<Table>,
    share: ArchiveShare,
    /// Bytes of all repositories on a disk.
    on_disk: AtomicU64,
    threads: Threads,
    makers: Arc<Semaphore>,
    unpackers: Arc<Semaphore>,
    /// Requests have separate UIDs, so that one can have files that no other may change.
    has_own_uids: bool,
}

#[derive(Debug)]
struct Table {
    seen: LruCache<Checksum, Seen>,
    kept: LruCache<Checksum, (Arc<KeptArchive>, Instant)>,
    repositories: LruCache<RepositoryKey, (Arc<KeptRepository>, Instant)>,
    /// Repositories that are being unpacked.
    unpacking: HashMap<RepositoryKey, Unpacking>,
}

/// A checksum that a request stated.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The time of the last request that stated it.
    at: Instant,
    /// The time at which the archive could not be kept.
    unfit: Option<Instant>,
    /// The time at which its files could not be shared.
    unshared: Option<Instant>,
    /// Bytes of the decompressed archive at least, as far as they are known.
    least: u64,
}

/// The way to the files of a request.
#[derive(Debug)]
pub(super) enum Way {
    /// The worker decompresses the archive.
    Worker,
    /// It does, and the supervisor decompresses it too, to keep it.
    Keep(MakerTurn),
    /// The archive is kept, if it is the stated one.
    Kept(Arc<KeptArchive>),
}

/// A decompressed archive.
#[derive(Debug)]
pub(super) struct KeptArchive {
    pages: Pages,
    length: u64,
    listing: Listing,
    _memory: ArchiveMemory,
}

/// The part of a kept archive that a request needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) parts: Vec<Range<u64>>,
    pub(super) unseen: Unseen,
}

/// The entries of an archive that its worker does not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unseen {
    /// Number of files, directories and links.
    entries: u64,
    /// Bytes of file contents.
    bytes: u64,
}

/// Memory of an archive, given back when this is dropped.
#[derive(Debug)]
pub(super) struct ArchiveMemory {
    shelf: KeptArchives,
    bytes: u64,
}

impl KeptArchives {
    /// Keeps nothing yet. `indexes` has the threads for work with archives.
    #[must_use]
    pub fn new(share: ArchiveShare, indexes: &IndexResources, has_own_uids: bool) -> Self {
        let table = Table {
            seen: LruCache::new(MAX_SEEN),
            kept: LruCache::unbounded(),
            repositories: LruCache::unbounded(),
            unpacking: HashMap::new(),
        };
        Self(Arc::new(Shelf {
            table: Mutex::new(table),
            share,
            on_disk: AtomicU64::new(0),
            threads: indexes.threads.clone(),
            makers: Arc::new(Semaphore::new(MAKERS)),
            unpackers: Arc::new(Semaphore::new(UNPACKERS)),
            has_own_uids,
        }))
    }

    /// The way for a request that has not sent its archive yet. An archive whose files
    /// will be shared is not worth keeping.
    pub(super) fn way(&self, header: &RequestHeader, repository: &Repository) -> Way {
        let Ok(checksum) = Checksum::try_from(&*header.checksum) else { return Way::Worker };
        // Requests that wait need the memory, and more uses would keep it longer.
        let share = self.0.share.bytes();
        if !(LEAST..=share).contains(&header.size) || self.0.share.in_use() > share {
            return Way::Worker;
        }
        let mut table = self.table();
        if let Some((archive, used)) = table.kept.get_mut(&checksum) {
            *used = Instant::now();
            return Way::Kept(Arc::clone(archive));
        }
        // If it can never fit, others need not make room.
        let is_worth = |seen: &Seen| seen.is_worth_keeping() && seen.least <= share;
        let is_worth_it = table.seen.peek(&checksum).is_some_and(is_worth);
        table.seen_now(checksum);
        if !is_worth_it || matches!(repository, Repository::New(_)) {
            return Way::Worker;
        }
        // Under the lock: no other maker keeps the archive between the look-up and this.
        let Ok(permit) = Arc::clone(&self.0.makers).try_acquire_owned() else { return Way::Worker };
        Way::Keep(MakerTurn { shelf: self.clone(), checksum, _permit: permit })
    }

    /// Remembers the size of an archive that was unpacked.
    pub(super) fn unpacked(&self, checksum: &[u8], Unpacked { files, bytes, .. }: &Unpacked) {
        let Ok(checksum) = Checksum::try_from(checksum) else { return };
        if let Some(seen) = self.table().seen.peek_mut(&checksum) {
            seen.least = bytes.saturating_add(files.saturating_mul(ENTRY_HEADER));
        }
    }

    /// Drops archives that nobody has used for a while, or that waiting requests leave
    /// no memory for.
    pub fn sweep(&self) {
        let mut table = self.table();
        while table.kept.peek_lru().is_some_and(|(_, (_, used))| !is_recent(*used)) {
            table.kept.pop_lru();
        }
        table.drop_idle_repositories();
        drop(table);
        self.take(0);
    }

    /// The memory for archives.
    #[must_use]
    pub fn share(&self) -> ArchiveShare {
        self.0.share.clone()
    }

    fn keep(&self, checksum: Checksum, archive: KeptArchive) {
        self.table().kept.put(checksum, (Arc::new(archive), Instant::now()));
    }

    /// Remembers that an archive cannot be kept.
    fn give_up(&self, checksum: Checksum) {
        self.table().seen_now(checksum).unfit = Some(Instant::now());
    }

    /// Takes memory, of the archives that were not used for the longest time if there
    /// is too little. Those in use stay. Returns false if it is not enough.
    fn take(&self, bytes: u64) -> bool {
        let share = &self.0.share;
        let in_memory = share.budget().in_memory;
        let mut table = self.table();
        while !share.take(bytes) {
            let idle = table.kept.iter().rev().find(|(_, (kept, _))| Arc::strong_count(kept) == 1);
            if let Some(checksum) = idle.map(|(checksum, _)| *checksum) {
                table.kept.pop(&checksum);
                continue;
            }
            if !in_memory || !table.drop_repository() {
                return false;
            }
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Remembers that a checksum was stated.
    fn seen_now(&mut self, checksum: Checksum) -> &mut Seen {
        let at = Instant::now();
        let first = || Seen { at, unfit: None, unshared: None, least: 0 };
        let seen = self.seen.get_or_insert_mut(checksum, first);
        seen.at = at;
        seen
    }
}

impl Seen {
    /// The archive comes again, and was not found too large a short while ago.
    fn is_worth_keeping(&self) -> bool {
        is_recent(self.at) && !self.unfit.is_some_and(is_recent)
    }

    /// There was no room to share its files a short while ago.
    fn is_unshared(&self) -> bool {
        self.unshared.is_some_and(is_recent)
    }
}

/// True for a time less than [`IDLE`] ago.
fn is_recent(at: Instant) -> bool {
    at.elapsed() < IDLE
}

impl KeptArchive {
    /// The file with the decompressed bytes.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.pages.as_fd()
    }

    /// Finds the parts that a plugin needs.
    pub(super) async fn needed(
        self: Arc<Self>,
        selection: Selection,
        kept: &KeptArchives,
        deadline: &Deadline,
    ) -> Result<Needed, DeadlinePassed> {
        if selection.is_everything() {
            return Ok(Needed::everything(self.length));
        }
        let entries = self.listing.len();
        kept.0
            .threads
            .run(entries, deadline, move |_| self.listing.needed(&selection, self.length))
            .await
    }
}

impl Needed {
    /// A whole archive of this length.
    fn everything(length: u64) -> Self {
        Self { parts: iter::once(0..length).collect(), unseen: Unseen::default() }
    }
}

impl Unseen {
    /// The size of the whole archive, out of the part that the worker saw.
    pub(super) fn add_to(self, seen: Unpacked) -> Unpacked {
        Unpacked {
            files: seen.files + self.entries,
            bytes: seen.bytes + self.bytes,
            left_out: seen.left_out + self.entries,
            ..seen
        }
    }
}

impl ArchiveMemory {
    fn new(shelf: KeptArchives) -> Self {
        Self { shelf, bytes: 0 }
    }

    /// Grows to `bytes`. Returns false if there is no memory.
    fn grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        // If it can never fit, others need not make room.
        let is_enough = more == 0 || (bytes <= self.shelf.0.share.bytes() && self.shelf.take(more));
        if is_enough {
            self.bytes += more;
        }
        is_enough
    }
}

impl Drop for ArchiveMemory {
    fn drop(&mut self) {
        self.shelf.0.share.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests;
