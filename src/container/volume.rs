//! The volume of the work directory.

use std::{
    io,
    path::{self, Path},
};

use rustix::fs::statfs;
use serde::{Deserialize, Serialize};

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Free space that is more by this part counts, as a divisor.
const GROWTH_PART: u64 = 4;

/// A volume.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// True if its files take memory of the container.
    pub in_memory: bool,
    /// Size in bytes.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Files and directories it can hold; `None` if it does not count them.
    pub inodes: Option<u64>,
    /// Files and directories that can still be created.
    pub free_inodes: Option<u64>,
}

impl Volume {
    /// Reads the volume of a directory, or of the first existing one above it.
    pub(super) fn read(directory: &Path, memory: u64) -> Self {
        let path = path::absolute(directory).unwrap_or_else(|_empty| directory.to_owned());
        let volume = path.ancestors().find_map(|path| Self::of(path, memory).ok());
        volume.unwrap_or_else(Self::unknown)
    }

    /// Reads the volume of an existing path. One in memory without a size of its own can take
    /// all `memory`.
    pub fn of(path: &Path, memory: u64) -> io::Result<Self> {
        let about = statfs(path)?;
        let in_memory = u64::try_from(about.f_type).is_ok_and(|kind| IN_MEMORY.contains(&kind));
        let block = u64::try_from(about.f_frsize).unwrap_or_default();
        let bytes = |blocks: u64| blocks.saturating_mul(block);
        let (size, free) = match bytes(about.f_blocks) {
            0 => (memory, memory),
            size => (size, bytes(about.f_bavail)),
        };
        let counts = about.f_files > 0;
        Ok(Self {
            in_memory,
            size,
            free,
            inodes: counts.then_some(about.f_files),
            free_inodes: counts.then_some(about.f_ffree),
        })
    }

    /// A directory that cannot be read: nothing is known to fit.
    fn unknown() -> Self {
        Self { in_memory: false, size: 0, free: 0, inodes: None, free_inodes: None }
    }

    /// The volume after a change. Unless its size has changed, its free space is the most
    /// that was seen, because running requests use some of it.
    pub(super) fn resized(&self, now: Self) -> Self {
        if (now.in_memory, now.size) != (self.in_memory, self.size) {
            return now;
        }
        let inodes = |volume: &Self| volume.free_inodes.unwrap_or_default();
        if !grew(self.free, now.free) && !grew(inodes(self), inodes(&now)) {
            return self.clone();
        }
        let free_inodes = self.free_inodes.max(now.free_inodes);
        Self { free: self.free.max(now.free), free_inodes, ..now }
    }
}

/// True if others have given back so much that it matters. A disk that others use changes
/// all the time.
fn grew(before: u64, now: u64) -> bool {
    now.saturating_sub(before) > before / GROWTH_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_of_the_start_counts_until_the_size_changes_or_there_is_more() {
        let volume = |size, free| Volume { size, free, ..Volume::unknown() };
        assert_eq!(volume(10, 9).resized(volume(10, 1)), volume(10, 9));
        assert_eq!(volume(10, 9).resized(volume(20, 11)), volume(20, 11));
        assert_eq!(volume(20, 8).resized(volume(20, 10)), volume(20, 8));
        assert_eq!(volume(20, 8).resized(volume(20, 11)), volume(20, 11));
    }

    #[test]
    fn inodes_that_others_give_back_count() {
        let volume = |free, inodes| Volume { free, free_inodes: Some(inodes), ..Volume::unknown() };
        assert_eq!(volume(9, 8).resized(volume(9, 10)), volume(9, 8));
        assert_eq!(volume(9, 8).resized(volume(1, 11)), volume(9, 11), "requests use some bytes");
    }
}
