//! The size of views, and the space of their volume.

use std::os::fd::{AsFd, BorrowedFd};

use nix::{
    errno::Errno,
    sys::stat::{FileStat, SFlag},
};
use rustix::fs::fstatvfs;

use super::each;
use crate::{
    kernel::entries::{LIST, kind},
    wire::{file_memory::memory_of_files, message::RequestLimits},
};

/// Most entries of a cache with views. A view costs time for each entry.
pub(super) const MAX_ENTRIES: u64 = 10_000;

/// A cache with views may also have at most this part of a request's limits of
/// disk and files, because its view counts.
const LIMIT_PART: u64 = 8;

/// Most bytes of a cache to copy. Further files become hard links.
pub(super) const MAX_COPIED: u64 = 32 << 20;

/// Part of the free space that copies for one view may take, as a divisor.
const FREE_PART: u64 = 8;

/// Unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;

/// Bytes to copy between two looks at the free space.
const STRIDE: u64 = 256 << 10;

/// Size that a cache may still have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) entries: u64,
    bytes: u64,
}

impl Size {
    pub(super) fn within(limits: RequestLimits) -> Self {
        let part = |limit: Option<u64>| limit.map_or(u64::MAX, |limit| limit / LIMIT_PART);
        Self { entries: MAX_ENTRIES.min(part(limits.files)), bytes: part(limits.disk) }
    }

    /// Fails if a directory is larger or deeper. Counting is cheaper than a view
    /// that is removed again. Directories that cannot be listed count as empty.
    pub(super) fn count(&mut self, cache: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        let depth = depth.checked_sub(1).ok_or(Errno::E2BIG)?;
        let counted = each(cache, &mut |entry| {
            self.take(entry.about)?;
            let inner = (kind(entry.about) == SFlag::S_IFDIR).then(|| entry.open(LIST).ok());
            inner.flatten().map_or(Ok(()), |inner| self.count(inner.as_fd(), depth))
        });
        if counted == Err(Errno::E2BIG) { counted } else { Ok(()) }
    }

    /// Subtracts an entry.
    pub(super) fn take(&mut self, about: &FileStat) -> Result<(), Errno> {
        let left = self.entries.checked_sub(1).zip(self.bytes.checked_sub(contents(about)));
        (self.entries, self.bytes) = left.ok_or(Errno::E2BIG)?;
        Ok(())
    }
}

/// Bytes of a file: at least a page if it has contents.
fn contents(about: &FileStat) -> u64 {
    let [bytes, blocks] =
        [about.st_size, about.st_blocks].map(|number| u64::try_from(number).unwrap_or_default());
    bytes.max(blocks.saturating_mul(BLOCK))
}

/// Space that the copies of one view may take.
#[derive(Debug)]
pub(super) struct Space<'v> {
    /// A directory of the volume.
    place: BorrowedFd<'v>,
    /// Bytes that may still be copied.
    copied: u64,
    /// Bytes that stay free: other requests make views at the same time.
    least: u64,
    /// Bytes since the last look.
    unseen: u64,
}

impl<'v> Space<'v> {
    pub(super) fn of(place: BorrowedFd<'v>) -> Self {
        let free = free(place);
        Self { place, copied: MAX_COPIED.min(free / FREE_PART), least: free / 2, unseen: 0 }
    }

    /// True if a copy of this file may be made.
    pub(super) fn copies(&mut self, about: &FileStat) -> bool {
        let bytes = contents(about);
        let Some(left) = self.copied.checked_sub(bytes) else { return false };
        self.copied = left;
        self.unseen = self.unseen.saturating_add(memory_of_files(bytes, 1));
        if self.unseen >= STRIDE {
            self.unseen = 0;
            if free(self.place) < self.least {
                self.end();
            }
        }
        true
    }

    /// Too little space is left for further copies.
    pub(super) fn end(&mut self) {
        self.copied = 0;
    }
}

/// Free bytes of a volume. One that does not tell, or reports no blocks, has no limit.
fn free(place: BorrowedFd<'_>) -> u64 {
    let about = fstatvfs(place).ok().filter(|about| about.f_blocks > 0);
    about.map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn a_small_file_counts_with_the_page_that_it_takes() {
        let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
        assert_eq!(contents(&fstat(&file).unwrap()), 0);
        file.write_all(b"x").unwrap();
        assert!(contents(&fstat(&file).unwrap()) >= 4096);
        file.set_len(1 << 20).unwrap();
        assert_eq!(contents(&fstat(&file).unwrap()), 1 << 20, "with its hole");
    }

    #[test]
    fn a_volume_without_a_size_has_no_limit() {
        let proc = File::open("/proc").unwrap();
        assert_eq!(Space::of(proc.as_fd()).copied, MAX_COPIED);
    }

    #[test]
    fn copies_end_with_their_part_and_before_the_volume_is_full() {
        let place = File::open("/dev/shm").unwrap();
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(STRIDE).unwrap();
        let about = fstat(&file).unwrap();
        let with = |least| Space { copied: 3 * STRIDE, least, ..Space::of(place.as_fd()) };
        let (mut roomy, mut full) = (with(0), with(u64::MAX));
        assert_eq!([(); 4].map(|()| roomy.copies(&about)), [true, true, true, false]);
        assert_eq!([(); 2].map(|()| full.copies(&about)), [true, false], "the rest are links");
    }
}
