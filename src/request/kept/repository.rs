//! Repositories that several requests read, if their plugin changes none.
//!
//! A request that sends an archive again unpacks it under a lease of its own, and
//! later requests that have sent the same bytes read the files there. No command runs
//! under that lease, so nobody can change them.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use cmp_sandbox::{SharedRepository, Unpacked};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{Checksum, IDLE, KeptArchives, LEAST, Room};
use crate::{plugin::PluginDefinition, request::incoming::RequestHeader, volume::WorkVolume};

/// This part of the leases is for repositories.
const PART: u32 = 8;

/// Bytes that a file or directory takes beside its contents, on average.
const ENTRY: u64 = 4 << 10;

/// A repository is known by its archive, and by whether the modes of its files are
/// those of the archive.
pub(super) type RepositoryKey = (Checksum, bool);

/// The way to the repository of a request.
#[derive(Debug)]
pub(in crate::request) enum Repository {
    /// The request has one of its own.
    Own,
    /// It unpacks one that later requests may read.
    New(Turn),
    /// It reads this one, if it sends the archive of it.
    Shared(Arc<KeptRepository>),
}

/// The right to unpack a repository for several requests. One at a time has it.
pub(in crate::request) struct Turn {
    shelf: KeptArchives,
    key: RepositoryKey,
    _permit: OwnedSemaphorePermit,
}

/// A repository that requests read.
#[derive(Debug)]
pub(in crate::request) struct KeptRepository {
    files: SharedRepository,
    unpacked: Unpacked,
    _room: Room,
}

impl KeptArchives {
    /// The repository for a request that has not sent its archive yet.
    pub(in crate::request) fn repository(
        &self,
        header: &RequestHeader,
        plugin: &PluginDefinition,
    ) -> Repository {
        let is_whole = plugin.read_only && plugin.include.is_empty();
        let checksum = Checksum::try_from(&*header.checksum);
        let (true, Ok(checksum)) = (is_whole && self.0.has_users, checksum) else {
            return Repository::Own;
        };
        if header.size < LEAST || self.in_use() > self.share() {
            return Repository::Own;
        }
        let key = (checksum, plugin.preserve_file_mode);
        let mut table = self.table();
        let now = Instant::now();
        if let Some((repository, used)) = table.repositories.get_mut(&key) {
            *used = now;
            return Repository::Shared(Arc::clone(repository));
        }
        let seen = table.seen.get(&checksum).filter(|seen| now - seen.at < IDLE);
        if seen.is_none_or(|seen| seen.is_unfit) || self.most_repositories().is_none() {
            return Repository::Own;
        }
        drop(table);
        let permit = Arc::clone(&self.0.unpacking).try_acquire_owned().ok();
        let turn = permit.map(|permit| Turn { shelf: self.clone(), key, _permit: permit });
        turn.map_or(Repository::Own, Repository::New)
    }

    /// Removes the repositories that no request reads if the volume has little space.
    pub(in crate::request) async fn give_space(&self, volume: &WorkVolume) {
        if self.table().repositories.is_empty() || !volume.is_scarce().await {
            return;
        }
        let mut table = self.table();
        let unused = |repository: &Arc<KeptRepository>| Arc::strong_count(repository) == 1;
        let kept = table.repositories.iter().filter(|(_, (repository, _))| unused(repository));
        let keys: Vec<_> = kept.map(|(key, _)| *key).collect();
        for key in &keys {
            table.repositories.pop(key);
        }
    }

    /// Repositories that may be kept; `None` with few leases.
    fn most_repositories(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new((self.0.budget.borrow().leases.amount / PART) as usize)
    }
}

impl Turn {
    /// Keeps the repository, whose archive was sent completely and has the stated
    /// checksum. If there is no room for it, only this request reads it.
    pub(in crate::request) fn keep(
        self,
        files: SharedRepository,
        unpacked: Unpacked,
    ) -> Arc<KeptRepository> {
        let Self { shelf, key, .. } = self;
        let mut room = Room::new(shelf.clone());
        let has_room = room.grow(unpacked.bytes.saturating_add(unpacked.files * ENTRY));
        let kept = Arc::new(KeptRepository { files, unpacked, _room: room });
        if let Some(most) = shelf.most_repositories().filter(|_| has_room) {
            let mut table = shelf.table();
            while table.repositories.len() >= most.get() {
                table.repositories.pop_lru();
            }
            table.repositories.put(key, (Arc::clone(&kept), Instant::now()));
        }
        kept
    }
}

impl KeptRepository {
    /// The files, for the bounds of a lease that reads them.
    pub(in crate::request) fn files(&self) -> SharedRepository {
        self.files.clone()
    }

    /// Their number and size.
    pub(in crate::request) fn unpacked(&self) -> &Unpacked {
        &self.unpacked
    }
}

impl Repository {
    /// The files, if they are unpacked.
    pub(in crate::request) fn files(&self) -> Option<SharedRepository> {
        match self {
            Self::Shared(kept) => Some(kept.files()),
            Self::Own | Self::New(_) => None,
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Turn").finish_non_exhaustive()
    }
}
