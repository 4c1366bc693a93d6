//! The share of the budget that a request counts for.

use std::ops::{AddAssign, SubAssign};

use cmp_sandbox::RequestUsage;

/// Memory that a request counts for until it is measured, in bytes. A shell with
/// a few tools and a small repository needs less.
pub(super) const FLOOR_MEMORY: u64 = 32 << 20;

/// Processes and threads that a request counts for until it is measured.
pub(super) const FLOOR_PROCESSES: u64 = 8;

/// Room to grow until the next measurement, at least: bytes, and processes.
const LEAST_HEADROOM: Charge = Charge { memory: 4 << 20, processes: 2 };

/// Room to grow until the next measurement, as a divisor of the measured value.
const HEADROOM_DIVISOR: u64 = 4;

/// Memory and processes that one or more requests count for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    /// Bytes, files of an in-memory volume included.
    pub(super) memory: u64,
    /// Processes and threads.
    pub(super) processes: u64,
}

impl Charge {
    pub(super) const NONE: Self = Self { memory: 0, processes: 0 };

    /// More than any charge.
    pub(super) const ANY: Self = Self { memory: u64::MAX, processes: u64::MAX };

    /// The charge of a request that has not been measured.
    pub(super) const FLOOR: Self = Self { memory: FLOOR_MEMORY, processes: FLOOR_PROCESSES };

    /// The measured part of a charge. Files count if they are in memory.
    pub(super) fn measured(usage: &RequestUsage, files_in_memory: bool) -> Self {
        let files = if files_in_memory { usage.file_memory } else { 0 };
        Self { memory: usage.memory.saturating_add(files), processes: usage.processes }
    }

    /// Adds the room to grow until the next measurement.
    pub(super) fn with_headroom(self) -> Self {
        let room = |amount: u64, least: u64| amount + (amount / HEADROOM_DIVISOR).max(least);
        Self {
            memory: room(self.memory, LEAST_HEADROOM.memory),
            processes: room(self.processes, LEAST_HEADROOM.processes),
        }
    }

    /// The larger of two charges, for each resource.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            processes: self.processes.max(other.processes),
        }
    }

    /// The smaller of two charges, for each resource.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            processes: self.processes.min(other.processes),
        }
    }

    pub(super) fn times(self, count: u64) -> Self {
        Self {
            memory: self.memory.saturating_mul(count),
            processes: self.processes.saturating_mul(count),
        }
    }

    pub(super) fn part(self, divisor: u64) -> Self {
        Self { memory: self.memory / divisor.max(1), processes: self.processes / divisor.max(1) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            processes: self.processes.saturating_add(other.processes),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            processes: self.processes.saturating_sub(other.processes),
        }
    }
}

impl AddAssign for Charge {
    fn add_assign(&mut self, other: Self) {
        *self = self.plus(other);
    }
}

impl SubAssign for Charge {
    fn sub_assign(&mut self, other: Self) {
        *self = self.minus(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_only_if_they_are_in_memory() {
        let usage =
            RequestUsage { memory: 5, file_memory: 7, processes: 2, ..RequestUsage::default() };
        assert_eq!(Charge::measured(&usage, true), Charge { memory: 12, processes: 2 });
        assert_eq!(Charge::measured(&usage, false), Charge { memory: 5, processes: 2 });
    }

    #[test]
    fn headroom_is_a_quarter_or_the_least() {
        let mib = |memory: u64, processes| Charge { memory: memory << 20, processes };
        assert_eq!(mib(3, 2).with_headroom(), mib(7, 4));
        assert_eq!(mib(400, 100).with_headroom(), mib(500, 125));
    }
}
