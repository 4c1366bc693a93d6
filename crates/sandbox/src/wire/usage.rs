//! Usage of requests, as the spawner reports it.

use prost::Message;

/// Most requests in one report, so that it fits into a message.
pub(crate) const MAX_REPORTED: usize = 128;

/// Requests whose usage has changed since the last report.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct UsageReport {
    #[prost(message, repeated, tag = "1")]
    pub(crate) leases: Vec<LeaseUsage>,
}

/// Limits of all requests together, in addition to those of each request.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct TotalLimits {
    /// Bytes of memory; `None` for no limit, as for those below.
    #[prost(uint64, optional, tag = "1")]
    pub memory: Option<u64>,
    /// Number of processes and threads.
    #[prost(uint64, optional, tag = "2")]
    pub processes: Option<u64>,
    /// The work volume is in memory, so files on it count as memory.
    #[prost(bool, tag = "3")]
    pub volume_is_memory: bool,
    /// Bytes of memory of the whole container, if it has a limit.
    #[prost(uint64, optional, tag = "4")]
    pub container: Option<u64>,
    /// Bytes of disk.
    #[prost(uint64, optional, tag = "5")]
    pub disk: Option<u64>,
}

/// Usage of one request; the fields are those of
/// [`RequestUsage`](crate::RequestUsage).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct LeaseUsage {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) memory: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) disk: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) files: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) processes: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) cpu_us: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) peak_memory: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) file_memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        channel,
        message::{SpawnerEvent, SpawnerReport},
    };

    #[test]
    fn the_longest_report_fits_into_a_message() {
        let most = u64::MAX;
        let usage = LeaseUsage {
            lease: most,
            memory: most,
            disk: most,
            files: most,
            processes: most,
            cpu_us: most,
            peak_memory: most,
            file_memory: most,
        };
        let report = SpawnerEvent::Usage(UsageReport { leases: vec![usage; MAX_REPORTED] });
        let (here, _there) = channel::packet_pair().unwrap();
        channel::send(&here, &SpawnerReport::from(report), &[]).unwrap();
    }
}
