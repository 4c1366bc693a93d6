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
        let left = self.entries.checked_sub(1).zip(self.bytes.checked_sub(space(about)));
        (self.entries, self.bytes) = left.ok_or(Errno::E2BIG)?;
        Ok(())
    }
}

/// Bytes that a copy of an entry takes, on a volume in memory too: at least a page if it has
/// contents, and what the kernel needs for each file.
pub(super) fn space(about: &FileStat) -> u64 {
    let [bytes, blocks] =
        [about.st_size, about.st_blocks].map(|number| u64::try_from(number).unwrap_or_default());
    memory_of_files(bytes.max(blocks.saturating_mul(BLOCK)), 1)
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

    /// True if a copy of so many bytes may be made. Fails if too little is free meanwhile.
    pub(super) fn copies(&mut self, bytes: u64) -> Result<bool, Errno> {
        let Some(left) = self.copied.checked_sub(bytes) else { return Ok(false) };
        self.copied = left;
        self.unseen += bytes;
        if self.unseen >= STRIDE {
            self.unseen = 0;
            if free(self.place) < self.least {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(true)
    }
}

/// Free bytes of a volume. One that does not tell has no limit.
fn free(place: BorrowedFd<'_>) -> u64 {
    fstatvfs(place).map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn a_small_file_counts_with_the_memory_that_it_takes() {
        let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
        assert_eq!(space(&fstat(&file).unwrap()), memory_of_files(0, 1));
        file.write_all(b"x").unwrap();
        assert!(space(&fstat(&file).unwrap()) >= memory_of_files(4096, 1));
        file.set_len(1 << 20).unwrap();
        assert_eq!(space(&fstat(&file).unwrap()), memory_of_files(1 << 20, 1), "with its hole");
    }

    #[test]
    fn copies_end_with_their_part_and_before_the_volume_is_full() {
        let place = File::open("/dev/shm").unwrap();
        let mut space = Space::of(place.as_fd());
        assert!(space.copied <= MAX_COPIED && space.least > 0);
        space.copied = 2 * STRIDE;
        assert_eq!(
            [STRIDE, STRIDE, 1].map(|bytes| space.copies(bytes)),
            [Ok(true), Ok(true), Ok(false)]
        );
        let mut full = Space { copied: 2 * STRIDE, least: u64::MAX, ..Space::of(place.as_fd()) };
        let results = [STRIDE - 1, 1].map(|bytes| full.copies(bytes));
        assert_eq!(results, [Ok(true), Err(Errno::ENOSPC)]);
    }
}
