//! Periods in which the limit of the processor stopped the container.

use super::cgroup::Cgroups;

/// Keys of the counts in the files of both versions.
const ALL: &str = "nr_periods ";
const THROTTLED: &str = "nr_throttled ";

/// Periods of a limit of the processor, usually of a tenth of a second. Those in which
/// nothing ran do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPeriods {
    /// All of them.
    pub all: u64,
    /// Those in which the limit stopped the processes.
    pub throttled: u64,
}

impl CpuPeriods {
    /// Those of the container's cgroup, or of the one above it that was stopped
    /// most often; `None` if no visible one has such a limit.
    #[must_use]
    pub fn read() -> Option<Self> {
        let tables = Cgroups::find().cpu_tables().collect::<Vec<_>>();
        tables.iter().filter_map(|table| Self::of(table)).max_by_key(|periods| periods.throttled)
    }

    fn of(table: &str) -> Option<Self> {
        let count =
            |key| table.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        let periods = Self { all: count(ALL)?, throttled: count(THROTTLED)? };
        (periods.all > 0).then_some(periods)
    }

    /// Those since an earlier count.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_read_in_both_versions() {
        let new =
            "usage_usec 9\nnr_periods 374\nnr_throttled 305\nthrottled_usec 17\nnr_bursts 0\n";
        let old = "nr_periods 374\nnr_throttled 305\nthrottled_time 17000\n";
        let expected = CpuPeriods { all: 374, throttled: 305 };
        assert_eq!([new, old].map(CpuPeriods::of), [Some(expected); 2]);
        let unlimited = "usage_usec 9\nnr_periods 0\nnr_throttled 0\n";
        assert_eq!([unlimited, "usage_usec 9\n"].map(CpuPeriods::of), [None; 2]);
    }
}
