//! Usage of all running requests, as the spawner measured it last.

use std::{collections::HashMap, time::Duration};

use crate::wire::usage::{LeaseUsage, UsageReport};

/// Usage of one request: of all its processes and files together. Where requests
/// have cgroups, the kernel counts memory, processes and CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// Bytes of memory of its processes. Files in memory count only if they are
    /// not on the work volume.
    pub memory: u64,
    /// Bytes of its files on the work volume and in caches.
    pub disk: u64,
    /// Number of its files and directories.
    pub files: u64,
    /// Number of its processes and threads.
    pub processes: u64,
    /// CPU time of its processes since its first command; the kernel also counts
    /// unpacking.
    pub cpu: Duration,
    /// Largest value of `memory` so far.
    pub peak_memory: u64,
    /// Bytes of memory that its files take if the work volume is in memory.
    pub file_memory: u64,
}

/// Usage of all requests that have been measured and are not released yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumption {
    requests: HashMap<u64, RequestUsage>,
}

impl Consumption {
    /// Usage of the request with this lease; `None` before its first
    /// measurement and after its release.
    #[must_use]
    pub fn of(&self, lease: u64) -> Option<RequestUsage> {
        self.requests.get(&lease).copied()
    }

    /// All requests: the ID of the lease and its usage.
    pub fn requests(&self) -> impl Iterator<Item = (u64, RequestUsage)> {
        self.requests.iter().map(|(lease, usage)| (*lease, *usage))
    }

    /// The sum over all requests. Its `peak_memory` is the sum of their peaks.
    #[must_use]
    pub fn total(&self) -> RequestUsage {
        self.requests.values().fold(RequestUsage::default(), RequestUsage::plus)
    }

    /// Adds what the spawner reported.
    pub(super) fn update(&mut self, report: &UsageReport) {
        self.requests.extend(report.leases.iter().map(|usage| (usage.lease, usage.into())));
    }

    /// Removes a request that is released. Returns false if it was not there.
    pub(super) fn remove(&mut self, lease: u64) -> bool {
        self.requests.remove(&lease).is_some()
    }
}

impl FromIterator<(u64, RequestUsage)> for Consumption {
    fn from_iter<I: IntoIterator<Item = (u64, RequestUsage)>>(requests: I) -> Self {
        Self { requests: requests.into_iter().collect() }
    }
}

impl RequestUsage {
    fn plus(self, other: &Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            disk: self.disk.saturating_add(other.disk),
            files: self.files.saturating_add(other.files),
            processes: self.processes.saturating_add(other.processes),
            cpu: self.cpu.saturating_add(other.cpu),
            peak_memory: self.peak_memory.saturating_add(other.peak_memory),
            file_memory: self.file_memory.saturating_add(other.file_memory),
        }
    }
}

impl From<&LeaseUsage> for RequestUsage {
    fn from(usage: &LeaseUsage) -> Self {
        let LeaseUsage { memory, disk, files, processes, peak_memory, file_memory, .. } = *usage;
        let cpu = Duration::from_micros(usage.cpu_us);
        Self { memory, disk, files, processes, cpu, peak_memory, file_memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_only_the_requests_in_it() {
        let usage = |lease, memory| LeaseUsage { lease, memory, ..LeaseUsage::default() };
        let mut all = Consumption::default();
        all.update(&UsageReport { leases: vec![usage(1, 10), usage(2, 20)] });
        all.update(&UsageReport { leases: vec![usage(2, 25)] });
        let memory = |lease| all.of(lease).map(|usage| usage.memory);
        assert_eq!([memory(1), memory(2), memory(3)], [Some(10), Some(25), None]);
        assert_eq!(all.total().memory, 35);
        assert!(all.remove(2) && !all.remove(2));
        assert_eq!(all.total().memory, 10);
    }
}
