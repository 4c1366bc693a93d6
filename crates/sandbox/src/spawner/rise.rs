//! The growth of the work volume since a request began.
//!
//! Nobody can read the size of a deleted file that is mapped and not open. The volume shows
//! its space, but not whose it is, so all growth counts for each request.

use std::os::fd::AsFd;

use nix::sys::statfs::{EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, XFS_SUPER_MAGIC, fstatfs};

use super::census::Volume;

/// File systems that count space when it is reserved or written. Others may count it late, or
/// never.
const PROMPT: [FsType; 3] = [EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC];

/// The most by which the volume has grown. Others may free space meanwhile, so neither the
/// first nor the last number alone tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rise(Option<Extremes>);

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extremes {
    least: u64,
    growth: u64,
}

impl Rise {
    /// A request begins whose files will be on the volume of this directory.
    pub(super) fn begin(directory: impl AsFd) -> Self {
        let about = fstatfs(&directory).ok();
        // A file system in memory without a limit counts nothing.
        let is_prompt = about
            .is_some_and(|about| PROMPT.contains(&about.filesystem_type()) && about.blocks() > 0);
        let used = is_prompt.then(|| Volume::of(directory)).flatten();
        Self(used.map(|used| Extremes { least: used.bytes, growth: 0 }))
    }

    /// Adds the number of bytes in use at a pass.
    pub(super) fn add(&mut self, used: u64) {
        if let Some(Extremes { least, growth }) = &mut self.0 {
            *least = used.min(*least);
            *growth = (used - *least).max(*growth);
        }
    }

    /// In bytes; `None` if nobody knows.
    pub(super) fn growth(&self) -> Option<u64> {
        self.0.map(|Extremes { growth, .. }| growth)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn space_that_others_free_hides_no_growth() {
        let mut rise = Rise(Some(Extremes { least: 100, growth: 0 }));
        let growth = [100, 140, 90, 120, 60, 101, 61].map(|used| {
            rise.add(used);
            rise.growth().unwrap()
        });
        assert_eq!(growth, [0, 40, 40, 40, 40, 41, 41]);
    }

    #[test]
    fn a_file_system_without_numbers_of_its_own_tells_nothing() {
        let mut rise = Rise::begin(File::open("/proc").unwrap());
        rise.add(1);
        assert_eq!(rise.growth(), None);
        assert_eq!(Rise::default().growth(), None);
    }
}
