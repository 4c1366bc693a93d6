//! Repositories that several requests read, if their plugin changes none.
//!
//! The first request unpacks it under a lease of its own, and later requests that have
//! sent the same bytes read the files there. No command runs under that lease, so
//! nobody can change them.

use std::{
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cmp_sandbox::{SharedRepository, Unpacked};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, timeout_at},
};
use tracing::warn;

use super::{ArchiveMemory, KeptArchives, LEAST, Seen, Table, is_recent};
use crate::{
    plugin::PluginDefinition,
    request::{
        deadline::Deadline,
        header::{Checksum, RequestHeader},
    },
    volume::WorkVolume,
};

/// All repositories together have this part of the disk of all requests, as a divisor.
const PART_OF_DISK: u64 = 4;

/// Longest wait for another request to unpack the same archive.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request waits at most this part of the time that it has left, as a divisor.
const PART_OF_DEADLINE: u32 = 4;

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
    /// Dropped last, when others can see the result.
    _end: watch::Sender<()>,
}

/// A repository that is being unpacked, until its turn ends.
#[derive(Debug)]
pub(super) struct Unpacking {
    /// Closes when that ends.
    end: watch::Receiver<()>,
    /// One of the places for repositories is taken for it.
    has_place: bool,
}

/// The state of a repository that a request looks for.
enum Found {
    Repository(Repository),
    /// Another request unpacks it. The channel closes when that ends.
    Unpacking(watch::Receiver<()>),
}

/// A repository that requests read.
#[derive(Debug)]
pub(in crate::request) struct KeptRepository {
    shelf: KeptArchives,
    key: RepositoryKey,
    files: SharedRepository,
    unpacked: Unpacked,
    _space: Space,
}

/// The space of a repository, given back when this is dropped.
#[derive(Debug)]
pub(in crate::request) enum Space {
    /// Of the share for archives, if the work volume is in memory.
    Memory(#[expect(dead_code, reason = "kept until the end")] ArchiveMemory),
    Disk {
        shelf: KeptArchives,
        bytes: u64,
    },
}

impl KeptArchives {
    /// The repository for a request that has not sent its archive yet. While another
    /// request unpacks it, this one waits, but not for long: the other client may be
    /// slow.
    pub(in crate::request) async fn repository(
        &self,
        header: &RequestHeader,
        plugin: &PluginDefinition,
        deadline: &Deadline,
    ) -> Repository {
        let Some(key) = self.key(header, plugin) else { return Repository::Own };
        let left = deadline.instant().map(|at| at.saturating_duration_since(Instant::now().into()));
        let patience = left.map_or(PATIENCE, |left| PATIENCE.min(left / PART_OF_DEADLINE));
        let until = Instant::now() + patience;
        loop {
            let mut unpacking = match self.take_repository(key) {
                Found::Repository(repository) => return repository,
                Found::Unpacking(end) => end,
            };
            // The end of its turn closes the channel.
            if timeout_at(until, unpacking.changed()).await.is_err() {
                return Repository::Own;
            }
        }
    }

    /// The key of a repository that may be shared.
    fn key(&self, header: &RequestHeader, plugin: &PluginDefinition) -> Option<RepositoryKey> {
        let is_whole = plugin.workspace.read_only && plugin.workspace.include.is_empty();
        let may_be_shared = is_whole && self.0.has_own_uids && header.size >= LEAST;
        let checksum = Checksum::try_from(&*header.checksum).ok().filter(|_| may_be_shared)?;
        Some((checksum, plugin.preserve_file_mode))
    }

    fn take_repository(&self, key: RepositoryKey) -> Found {
        let mut table = self.table();
        if let Some((repository, used)) = table.repositories.get_mut(&key) {
            *used = Instant::now();
            return Found::Repository(Repository::Shared(Arc::clone(repository)));
        }
        if let Some(Unpacking { end, .. }) = table.unpacking.get(&key) {
            return Found::Unpacking(end.clone());
        }
        let is_unshared = table.seen.peek(&key.0).is_some_and(Seen::is_unshared);
        let may_try = self.most_repositories() > 0 && !is_unshared;
        let permit = Arc::clone(&self.0.unpackers).try_acquire_owned().ok();
        let Some(permit) = permit.filter(|_| may_try) else {
            return Found::Repository(Repository::Own);
        };
        let (end, ended) = watch::channel(());
        table.unpacking.insert(key, Unpacking { end: ended, has_place: false });
        let turn = Turn { shelf: self.clone(), key, _permit: permit, _end: end };
        Found::Repository(Repository::New(turn))
    }

    /// Removes the repositories that no request reads if the volume has little space.
    pub(crate) async fn give_space(&self, volume: &WorkVolume) {
        if !self.table().repositories.is_empty() && volume.is_tight().await {
            let mut table = self.table();
            while table.drop_repository() {}
        }
    }

    /// Repositories that may be kept.
    fn most_repositories(&self) -> usize {
        self.0.share.budget().repositories() as usize
    }
}

impl Table {
    /// Takes one of `most` places for a repository that is being unpacked, of repositories that
    /// nobody uses if there is none. Returns false if that is not enough.
    fn take_place(&mut self, key: &RepositoryKey, most: usize) -> bool {
        let taken = self.unpacking.values().filter(|unpacking| unpacking.has_place).count();
        while self.repositories.len() + taken >= most {
            if !self.drop_repository() {
                return false;
            }
        }
        if let Some(unpacking) = self.unpacking.get_mut(key) {
            unpacking.has_place = true;
        }
        true
    }

    /// Drops the repository that was not used for the longest time. Those in use stay.
    /// Returns false if there is none.
    pub(super) fn drop_repository(&mut self) -> bool {
        let mut oldest = self.repositories.iter().rev();
        let unused = oldest.find(|(_, (repository, _))| Arc::strong_count(repository) == 1);
        let Some(key) = unused.map(|(key, _)| *key) else { return false };
        self.repositories.pop(&key).is_some()
    }

    /// Drops the repositories that no request has read for a while. To read one for
    /// longer than that is to use it.
    pub(super) fn drop_idle_repositories(&mut self) {
        for (_, (repository, used)) in &mut self.repositories {
            if Arc::strong_count(repository) > 1 {
                *used = Instant::now();
            }
        }
        let idle = self.repositories.iter().filter(|(_, (_, used))| !is_recent(*used));
        for key in idle.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.repositories.pop(&key);
        }
    }
}

impl Turn {
    /// Takes the space and the place of the repository. If there are none, only this request
    /// reads it.
    pub(in crate::request) fn space(&self, unpacked: &Unpacked) -> Option<Space> {
        let most = self.shelf.most_repositories();
        let bytes = unpacked.bytes.saturating_add(unpacked.files.saturating_mul(ENTRY));
        let space = Space::take(&self.shelf, bytes);
        let space = space.filter(|_| self.shelf.table().take_place(&self.key, most));
        if space.is_none() {
            // Others need not wait for it in vain.
            self.shelf.table().seen_now(self.key.0).unshared = Some(Instant::now());
        }
        space
    }

    /// Keeps the repository, whose archive was sent completely and has the stated
    /// checksum.
    pub(in crate::request) fn keep(
        self,
        files: SharedRepository,
        unpacked: Unpacked,
        space: Space,
    ) -> Arc<KeptRepository> {
        let kept = Arc::new(KeptRepository {
            shelf: self.shelf.clone(),
            key: self.key,
            files,
            unpacked,
            _space: space,
        });
        let mut table = self.shelf.table();
        table.repositories.put(self.key, (Arc::clone(&kept), Instant::now()));
        // It has the place itself now.
        if let Some(unpacking) = table.unpacking.get_mut(&self.key) {
            unpacking.has_place = false;
        }
        drop(table);
        kept
    }
}

impl Space {
    /// Takes space, of repositories that nobody uses if there is too little; `None` if
    /// that is not enough.
    fn take(shelf: &KeptArchives, bytes: u64) -> Option<Self> {
        let (in_memory, disk) = {
            let budget = shelf.0.share.budget();
            (budget.in_memory, budget.disk.amount)
        };
        if in_memory {
            let mut memory = ArchiveMemory::new(shelf.clone());
            return memory.grow(bytes).then_some(Self::Memory(memory));
        }
        let make_room = || shelf.table().drop_repository();
        let is_taken = take_of(&shelf.0.on_disk, (bytes, disk / PART_OF_DISK), make_room);
        is_taken.then(|| Self::Disk { shelf: shelf.clone(), bytes })
    }
}

/// Adds bytes to those that are used, up to a limit, and makes room as often as that helps.
/// If they can never fit, others need not make room.
fn take_of(
    used: &AtomicU64,
    (bytes, most): (u64, u64),
    mut make_room: impl FnMut() -> bool,
) -> bool {
    let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= most);
    while used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        if bytes > most || !make_room() {
            return false;
        }
    }
    true
}

impl Drop for Space {
    fn drop(&mut self) {
        match self {
            Self::Memory(_) => {}
            Self::Disk { shelf, bytes } => {
                shelf.0.on_disk.fetch_sub(*bytes, Ordering::Relaxed);
            }
        }
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

    /// Lets no later request read the files, because they are gone: the next one unpacks
    /// the archive again. What another request has kept meanwhile stays.
    pub(in crate::request) fn forget(&self) {
        let mut table = self.shelf.table();
        let kept = table.repositories.peek(&self.key);
        if kept.is_some_and(|(kept, _)| ptr::eq(Arc::as_ptr(kept), self)) {
            table.repositories.pop(&self.key);
            drop(table);
            warn!("the files of a shared repository are gone: the next request unpacks them again");
        }
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

#[cfg(test)]
mod tests;
