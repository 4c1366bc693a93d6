//! The space of a volume, and its marks: below them, no request begins, or only one at a
//! time goes on.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind},
    path::Path,
};

use cmp_sandbox::{directory_remedy, memory_of_files};
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::container::Volume;

/// Low-water mark in bytes and in files, and as a part of the volume. The lower
/// one counts: a small volume is not low from the start.
const LOW_BYTES: u64 = 32 << 20;
const LOW_INODES: u64 = 1000;
const LOW_PART: u64 = 20;

/// Files that no request uses at the moment are removed below these marks, long before
/// a request would miss their space: removing them takes a while. On a small volume, a
/// part of it counts.
const SPARE_BYTES: u64 = 1 << 30;
const SPARE_INODES: u64 = 100_000;
const SPARE_PART: u64 = 4;

/// Part of a volume in memory, or of the memory of all requests if that is less, for the
/// one request that uses the last of it, as a divisor. It must also hold what the others
/// still write: up to 256 KiB for each, the distance of two looks.
const LAST_PART: u64 = 6;

/// Space of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free_bytes: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Files that can still be created; `None` if the volume does not count them.
    pub free_inodes: Option<u64>,
    /// Files that it can hold.
    pub inodes: Option<u64>,
    /// Nothing can be written to it.
    pub is_read_only: bool,
}

impl Space {
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let about = statvfs(path)?;
        let counts = about.f_files > 0;
        Ok(Self {
            free_bytes: about.f_bavail.saturating_mul(about.f_frsize),
            bytes: about.f_blocks.saturating_mul(about.f_frsize),
            free_inodes: counts.then_some(about.f_favail),
            inodes: counts.then_some(about.f_files),
            is_read_only: about.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// The space of a volume that can be written to.
    pub(crate) fn of(volume: &Volume) -> Self {
        Self {
            free_bytes: volume.free,
            bytes: volume.size,
            free_inodes: volume.free_inodes,
            inodes: volume.inodes,
            is_read_only: false,
        }
    }

    /// The space of `bytes` of memory that nobody uses.
    pub(super) fn all_of(bytes: u64) -> Self {
        Self { free_bytes: bytes, bytes, free_inodes: None, inodes: None, is_read_only: false }
    }

    /// Bytes that are for one request at a time.
    pub(super) fn last_part(self) -> u64 {
        self.bytes / LAST_PART
    }

    /// The space, if files may take at most `most` bytes of memory.
    pub(crate) fn within(self, most: u64) -> Self {
        let files =
            self.inodes.zip(self.free_inodes).map_or(0, |(all, free)| all.saturating_sub(free));
        let used = self.bytes.saturating_sub(self.free_bytes);
        let free_bytes = self.free_bytes.min(most.saturating_sub(memory_of_files(used, files)));
        Self { free_bytes, bytes: self.bytes.min(most), ..self }
    }

    /// Free bytes below which no request begins. They are for small requests that run, so
    /// no request uses them to unpack an archive.
    pub(super) fn least(self) -> u64 {
        LOW_BYTES.min(self.bytes / LOW_PART)
    }

    /// Describes the mark that the free space is below, if it is.
    pub(crate) fn low(self) -> Option<String> {
        let least = self.least();
        if self.free_bytes < least {
            return Some(format!("less than {} are free", size(least)));
        }
        let inodes = LOW_INODES.min(self.inodes? / LOW_PART);
        (self.free_inodes? < inodes).then(|| format!("fewer than {inodes} inodes are free"))
    }

    pub(super) fn is_tight(self) -> bool {
        let inodes = self.inodes.zip(self.free_inodes);
        self.free_bytes < SPARE_BYTES.min(self.bytes / SPARE_PART)
            || inodes.is_some_and(|(all, free)| free < SPARE_INODES.min(all / SPARE_PART))
    }

    /// The reason why nothing can be written to it, with the remedy.
    pub(crate) fn closed(self) -> Option<String> {
        let error = ErrorKind::ReadOnlyFilesystem.into();
        let remedy = || directory_remedy(&error, "--work-dir");
        self.is_read_only.then(|| format!("is read-only: {}", remedy()))
    }

    pub(crate) fn say(self) -> String {
        let mut text = format!("{} of {} free", size(self.free_bytes), size(self.bytes));
        if let (Some(free), Some(all)) = (self.free_inodes, self.inodes) {
            // Writing to a String cannot fail.
            let _ = write!(text, ", {free} of {all} inodes free");
        }
        text
    }
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The space of a volume that is neither full nor read-only.
#[cfg(test)]
pub(crate) const SPACE: Space = Space {
    free_bytes: 64 << 20,
    bytes: 1 << 30,
    free_inodes: Some(5000),
    inodes: Some(10_000),
    is_read_only: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_low_below_a_mark_of_bytes_or_files() {
        assert_eq!(SPACE.low(), None);
        let low = Space { free_bytes: LOW_BYTES - 1, ..SPACE }.low().unwrap();
        assert_eq!(low, "less than 32 MiB are free");
        let low = Space { free_inodes: Some(499), ..SPACE }.low().unwrap();
        assert_eq!(low, "fewer than 500 inodes are free");
        // A volume without a number of files has no mark for them.
        assert_eq!(Space { free_inodes: None, inodes: None, ..SPACE }.low(), None);
        let small = Space { free_bytes: 1 << 20, bytes: 16 << 20, ..SPACE };
        assert_eq!(small.low(), None);
    }

    #[test]
    fn a_volume_is_tight_long_before_it_is_low() {
        let wide = Space { free_bytes: 1 << 28, ..SPACE };
        assert!(!wide.is_tight());
        assert!(Space { free_bytes: (1 << 28) - 1, ..wide }.is_tight());
        assert!(Space { free_inodes: Some(2499), ..wide }.is_tight());
        assert!(!Space { free_inodes: None, inodes: None, ..wide }.is_tight());
        let large = Space { free_bytes: SPARE_BYTES, bytes: 1 << 40, ..SPACE };
        assert!(!large.is_tight() && Space { free_bytes: SPARE_BYTES - 1, ..large }.is_tight());
    }

    #[test]
    fn a_volume_in_memory_is_no_larger_than_the_memory_of_all_requests() {
        let space = |most| {
            let space = SPACE.within(most);
            (space.free_bytes, space.bytes)
        };
        assert_eq!(space(2 << 30), (64 << 20, 1 << 30), "the volume is smaller");
        let files = memory_of_files(960 << 20, 5000);
        assert_eq!(space(1000 << 20), ((1000 << 20) - files, 1000 << 20));
        assert_eq!(space(500 << 20), (0, 500 << 20));
    }

    #[test]
    fn the_last_part_is_a_part_of_the_volume_or_of_the_memory_of_all_requests() {
        assert_eq!(SPACE.last_part(), (1 << 30) / LAST_PART);
        assert_eq!(SPACE.within(600 << 20).last_part(), 100 << 20);
        assert_eq!(SPACE.within(2 << 30).last_part(), SPACE.last_part());
        assert_eq!(Space::all_of(600 << 20).last_part(), 100 << 20);
    }
}
