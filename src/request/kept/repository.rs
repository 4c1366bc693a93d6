//! Repositories that several requests read, if their plugin changes none.
//!
//! The first request unpacks it under a lease of its own, and later requests that have
//! sent the same bytes read the files there. No command runs under that lease, so
//! nobody can change them.

use std::sync::Arc;

use cmp_sandbox::{SharedRepository, Unpacked};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{Checksum, KeptArchives, LEAST, Room, Table};
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

/// The right to unpack a repository for several requests, which one at a time has.
#[derive(Debug)]
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
        if let Some((repository, used)) = table.repositories.get_mut(&key) {
            *used = Instant::now();
            return Repository::Shared(Arc::clone(repository));
        }
        let is_unfit = table.seen.peek(&checksum).is_some_and(|seen| seen.is_unfit);
        if is_unfit || self.most_repositories() == 0 || table.unpacking.contains(&key) {
            return Repository::Own;
        }
        let Ok(permit) = Arc::clone(&self.0.unpackers).try_acquire_owned() else {
            return Repository::Own;
        };
        table.unpacking.insert(key);
        Repository::New(Turn { shelf: self.clone(), key, _permit: permit })
    }

    /// Removes the repositories that no request reads if the volume has little space.
    pub(in crate::request) async fn give_space(&self, volume: &WorkVolume) {
        if !self.table().repositories.is_empty() && volume.is_scarce().await {
            let mut table = self.table();
            while table.drop_repository() {}
        }
    }

    /// Repositories that may be kept.
    fn most_repositories(&self) -> usize {
        (self.0.budget.borrow().leases.amount / PART) as usize
    }
}

impl Table {
    /// Drops the repository that was not used for the longest time. Those in use stay.
    /// Returns false if there is none.
    pub(super) fn drop_repository(&mut self) -> bool {
        let mut oldest = self.repositories.iter().rev();
        let unused = oldest.find(|(_, (repository, _))| Arc::strong_count(repository) == 1);
        let Some(key) = unused.map(|(key, _)| *key) else { return false };
        self.repositories.pop(&key).is_some()
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
        let mut room = Room::new(self.shelf.clone());
        let has_room = room.grow(unpacked.bytes.saturating_add(unpacked.files * ENTRY));
        let kept = Arc::new(KeptRepository { files, unpacked, _room: room });
        let most = self.shelf.most_repositories();
        let mut table = self.shelf.table();
        let has_place = table.repositories.len() < most || table.drop_repository();
        if has_room && has_place {
            table.repositories.put(self.key, (Arc::clone(&kept), Instant::now()));
        }
        drop(table);
        kept
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shelf.table().unpacking.remove(&self.key);
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
