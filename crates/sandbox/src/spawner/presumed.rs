//! Files of a request that no measurement has counted yet. Pure.
//!
//! Requests can fill a container with files faster than their files are counted. The kernel
//! tells at once how much the whole work volume has grown. Creating a file and writing to it
//! take CPU time, so each request is presumed to have caused the part of the growth that is
//! its part of the CPU time. That only decides which request is ended for a full container.

use super::census::Volume;
use crate::wire::file_memory::memory_of_files;

/// The presumed files of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presumed {
    /// CPU time at the last pass, in ticks.
    ticks: u64,
    /// Growth since the last measurement began.
    recent: Volume,
    /// Growth before, since the one began whose result is known.
    earlier: Volume,
}

impl Presumed {
    /// The CPU time since the last pass, in ticks.
    pub(super) fn spent(&mut self, ticks: u64) -> u64 {
        ticks.saturating_sub(std::mem::replace(&mut self.ticks, ticks))
    }

    /// Adds its part of the growth of the volume.
    pub(super) fn add(&mut self, part: Volume) {
        self.recent = self.recent.plus(part);
    }

    /// A measurement begins.
    pub(super) fn measuring(&mut self) {
        self.earlier = self.earlier.plus(std::mem::take(&mut self.recent));
    }

    /// Its result is known.
    pub(super) fn measured(&mut self) {
        self.earlier = Volume::default();
    }

    /// Memory of the files, if the volume is in memory.
    pub(super) fn memory(&self) -> u64 {
        let Volume { bytes, inodes } = self.earlier.plus(self.recent);
        memory_of_files(bytes, inodes)
    }
}

impl Volume {
    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    /// The part of the growth for so many ticks of `all`.
    pub(super) fn part(self, ticks: u64, all: u64) -> Self {
        let of = |amount: u64| {
            let part = u128::from(amount) * u128::from(ticks) / u128::from(all.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        Self { bytes: of(self.bytes), inodes: of(self.inodes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inodes(inodes: u64) -> Volume {
        Volume { bytes: 0, inodes }
    }

    #[test]
    fn growth_is_divided_by_cpu_time() {
        let growth = Volume { bytes: 100, inodes: 40 };
        assert_eq!(growth.part(3, 4), Volume { bytes: 75, inodes: 30 });
        assert_eq!(growth.part(0, 4), Volume::default());
        assert_eq!(growth.part(0, 0), Volume::default());
        let mut presumed = Presumed::default();
        assert_eq!([5, 7, 6, 8].map(|ticks| presumed.spent(ticks)), [5, 2, 0, 2]);
    }

    #[test]
    fn growth_counts_until_a_measurement_that_began_later_has_counted_it() {
        let mut presumed = Presumed::default();
        let mut seen = vec![presumed.memory()];
        presumed.add(inodes(1));
        presumed.measuring();
        seen.push(presumed.memory());
        presumed.add(inodes(2));
        seen.push(presumed.memory());
        presumed.measured();
        seen.push(presumed.memory());
        // The next two fail.
        presumed.measuring();
        presumed.measuring();
        seen.push(presumed.memory());
        assert_eq!(seen, [0, 1, 3, 2, 2].map(|files| memory_of_files(0, files)));
    }
}
