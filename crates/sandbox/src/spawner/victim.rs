//! The request that ends because all requests together use too much. Pure.

use crate::wire::{
    exceeded::ExceededLimit,
    usage::{LeaseUsage, TotalLimits},
};

/// A request to end, because all requests together use too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) lease: u64,
    pub(super) exceeded: ExceededLimit,
    /// The limit of all requests together.
    pub(super) limit: u64,
    /// The part of this request.
    pub(super) used: u64,
}

/// The container, as its own numbers tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container {
    /// It is almost full.
    pub(super) is_full: bool,
    /// The most that all requests may use together; `None` if nobody knows.
    pub(super) used: Option<u64>,
}

/// The request with the largest part, if all requests together exceed a limit, or if the
/// container is almost full, for example of what the supervisor itself has.
///
/// Until a request is measured, pages count for each process that shares them, as those of a
/// program and the processes that it forks. But they use no more than the container. What
/// files in memory take besides their contents is estimated, and comes in addition.
pub(super) fn of_totals(
    limits: &TotalLimits,
    requests: &[LeaseUsage],
    container: Container,
) -> Option<Victim> {
    let Container { is_full, used } = container;
    let files = |usage: &LeaseUsage| if limits.volume_is_memory { usage.file_memory } else { 0 };
    let disk = |usage: &LeaseUsage| usage.disk.max(files(usage));
    let memory = |usage: &LeaseUsage| usage.memory.saturating_add(files(usage));
    let processes = |usage: &LeaseUsage| usage.processes;
    let of_container = || {
        let largest = largest(is_full.then_some(0), ExceededLimit::Container, requests, memory)?;
        Some(Victim { limit: limits.memory.unwrap_or_default(), ..largest })
    };
    let is_used = |victim: Victim| {
        let besides = |usage| files(usage).saturating_sub(usage.disk);
        let besides = requests.iter().map(besides).fold(0, u64::saturating_add);
        let most = used.map_or(u64::MAX, |used| used.saturating_add(besides));
        let used = victim.used.min(most);
        (most > victim.limit).then_some(Victim { used, ..victim })
    };
    largest(limits.memory, ExceededLimit::TotalMemory, requests, memory)
        .and_then(is_used)
        .or_else(of_container)
        .or_else(|| largest(limits.processes, ExceededLimit::TotalProcesses, requests, processes))
        .or_else(|| largest(limits.disk, ExceededLimit::TotalDisk, requests, disk))
}

/// Fewer processes of a request are never the reason why the kernel refuses one.
const CROWD: u64 = 64;

/// The request that has most processes of all, if it has enough of them to be the
/// reason why the kernel refuses another one. The limit that was reached need not
/// be known: a container does not see that of its Pod.
pub(super) fn crowd(requests: &[LeaseUsage]) -> Option<Victim> {
    let total = requests.iter().fold(0, |sum: u64, request| sum.saturating_add(request.processes));
    let largest = requests.iter().max_by_key(|request| request.processes)?;
    let used = largest.processes;
    (used >= CROWD && used > total / 2).then_some(Victim {
        lease: largest.lease,
        exceeded: ExceededLimit::TotalProcesses,
        limit: total,
        used,
    })
}

/// Part of the Pod's local ports that all requests together may have, as a divisor, and the
/// least of it: programs of requests need hundreds.
const PORTS_PART: u64 = 4;
const LEAST_PORTS: u64 = 1024;

/// Local ports that all requests together may have. `range` is the kernel's text with the
/// first and the last port of the Pod.
pub(super) fn port_limit(range: &str) -> u64 {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let range = ends.next().zip(ends.next());
    let ports = range.map_or(0, |(first, last)| (last + 1).saturating_sub(first));
    (ports / PORTS_PART).max(LEAST_PORTS)
}

/// The request with most local ports, if all together have more than `limit`. `seen` are
/// those of the UIDs of requests. The part of a request may be estimated too high.
pub(super) fn port_taker(limit: u64, seen: u64, requests: &[(u64, u64)]) -> Option<Victim> {
    let total = requests.iter().fold(0, |sum: u64, (_, ports)| sum.saturating_add(*ports));
    let is_over = seen.min(total) > limit;
    let (lease, ports) = requests.iter().filter(|_| is_over).max_by_key(|(_, ports)| *ports)?;
    let used = *ports.min(&seen);
    Some(Victim { lease: *lease, exceeded: ExceededLimit::TotalPorts, limit, used })
}

/// Part of the watches of a UID that one request may have, as a divisor. The supervisor, the
/// repo-server and others on the node may have the same UID.
const WATCHES_PART: u64 = 16;

/// Descriptors that one request may watch with epoll. `most` is the kernel's text with those
/// of a UID.
pub(super) fn watch_limit(most: &str) -> Option<u64> {
    most.trim().parse::<u64>().ok().map(|most| most / WATCHES_PART)
}

fn largest(
    limit: Option<u64>,
    exceeded: ExceededLimit,
    requests: &[LeaseUsage],
    used: impl Fn(&LeaseUsage) -> u64,
) -> Option<Victim> {
    let limit = limit?;
    let total = requests.iter().fold(0, |sum: u64, request| sum.saturating_add(used(request)));
    let first = requests.iter().filter(|_| total > limit).max_by_key(|request| used(request))?;
    Some(Victim { lease: first.lease, exceeded, limit, used: used(first) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> [LeaseUsage; 2] {
        let usage = |lease, memory, disk, processes| LeaseUsage {
            lease,
            memory,
            disk,
            file_memory: disk,
            processes,
            ..LeaseUsage::default()
        };
        [usage(1, 60, 0, 3), usage(2, 40, 30, 5)]
    }

    /// A container of which nobody knows how much it uses.
    fn unknown(is_full: bool) -> Container {
        Container { is_full, used: None }
    }

    fn of(limits: TotalLimits) -> Option<(u64, ExceededLimit, u64)> {
        of_totals(&limits, &requests(), unknown(false))
            .map(|victim| (victim.lease, victim.exceeded, victim.used))
    }

    #[test]
    fn the_request_with_the_largest_part_is_ended() {
        let memory = |memory| TotalLimits { memory: Some(memory), ..TotalLimits::default() };
        assert_eq!(of(memory(100)), None);
        assert_eq!(of(memory(99)), Some((1, ExceededLimit::TotalMemory, 60)));
        let in_memory = TotalLimits { volume_is_memory: true, ..memory(129) };
        assert_eq!(of(in_memory), Some((2, ExceededLimit::TotalMemory, 70)));
        let processes = TotalLimits { processes: Some(7), ..memory(100) };
        assert_eq!(of(processes), Some((2, ExceededLimit::TotalProcesses, 5)));
        let disk = |disk| TotalLimits { disk: Some(disk), ..memory(100) };
        assert_eq!(of(disk(30)), None);
        assert_eq!(of(disk(29)), Some((2, ExceededLimit::TotalDisk, 30)));
        assert_eq!(of(TotalLimits::default()), None);
        let full = of_totals(&memory(1000), &requests(), unknown(true)).unwrap();
        assert_eq!((full.lease, full.limit, full.used), (1, 1000, 60));
        assert_eq!(full.exceeded, ExceededLimit::Container);
        let over = of_totals(&memory(99), &requests(), unknown(true)).unwrap();
        assert_eq!(over.exceeded, ExceededLimit::TotalMemory);
        assert_eq!(of_totals(&memory(1000), &[], unknown(true)), None);
    }

    #[test]
    fn pages_that_processes_share_end_no_request() {
        let limits = TotalLimits { memory: Some(50), ..TotalLimits::default() };
        let victim = |is_full, used| {
            let container = Container { is_full, used: Some(used) };
            of_totals(&limits, &requests(), container).map(|victim| (victim.exceeded, victim.used))
        };
        assert_eq!(victim(false, 50), None);
        assert_eq!(victim(false, 51), Some((ExceededLimit::TotalMemory, 51)), "no more than all");
        assert_eq!(victim(false, 70), Some((ExceededLimit::TotalMemory, 60)));
        assert_eq!(victim(true, 50), Some((ExceededLimit::Container, 60)));
        let limits = TotalLimits { volume_is_memory: true, ..limits };
        let empty = LeaseUsage { lease: 3, file_memory: 71, ..LeaseUsage::default() };
        let victim = |requests: &[LeaseUsage]| {
            let container = Container { is_full: false, used: Some(21) };
            of_totals(&limits, requests, container).map(|victim| (victim.lease, victim.used))
        };
        assert_eq!(victim(&requests()), None, "the container's number has the files");
        assert_eq!(victim(&[&requests()[..], &[empty]].concat()), Some((3, 71)));
    }

    #[test]
    fn files_on_a_volume_in_memory_take_memory_even_if_they_are_empty() {
        let empty = LeaseUsage { lease: 3, file_memory: 71, ..LeaseUsage::default() };
        let all = [&requests()[..], &[empty]].concat();
        let largest = |volume_is_memory| {
            let limits = TotalLimits { volume_is_memory, ..TotalLimits::default() };
            of_totals(&limits, &all, unknown(true)).map(|victim| (victim.lease, victim.used))
        };
        assert_eq!([largest(false), largest(true)], [Some((1, 60)), Some((3, 71))]);
    }

    #[test]
    fn empty_files_take_space_of_a_volume_in_memory() {
        let empty = LeaseUsage { lease: 3, file_memory: 71, ..LeaseUsage::default() };
        let all = [&requests()[..], &[empty]].concat();
        let largest = |volume_is_memory| {
            let limits =
                TotalLimits { disk: Some(100), volume_is_memory, ..TotalLimits::default() };
            let victim = of_totals(&limits, &all, unknown(false))?;
            Some((victim.lease, victim.exceeded, victim.used))
        };
        assert_eq!(
            [largest(false), largest(true)],
            [None, Some((3, ExceededLimit::TotalDisk, 71))]
        );
    }

    #[test]
    fn the_request_with_most_ports_is_ended() {
        let of = |seen, requests: &[(u64, u64)]| {
            port_taker(100, seen, requests).map(|victim| (victim.lease, victim.used))
        };
        assert_eq!(of(200, &[(1, 40), (2, 60)]), None, "others have the rest");
        assert_eq!(of(100, &[(1, 512), (2, 60)]), None, "estimated too high");
        assert_eq!(of(101, &[(1, 60), (2, 41)]), Some((1, 60)), "each has less than the limit");
        assert_eq!(of(150, &[(1, 60), (2, 512)]), Some((2, 150)));
        assert_eq!(of(200, &[]), None);
    }

    #[test]
    fn a_part_of_the_watches_of_a_uid_is_for_one_request() {
        assert_eq!(watch_limit("5491533\n"), Some(343_220));
        assert_eq!(watch_limit(""), None);
    }

    #[test]
    fn a_part_of_the_ports_is_for_requests() {
        assert_eq!(port_limit("32768\t60999\n"), 7058);
        assert_eq!(port_limit("1024\t65535\n"), 16128);
        assert_eq!(port_limit("60000\t60999\n"), LEAST_PORTS);
        assert_eq!(port_limit(""), LEAST_PORTS);
    }

    #[test]
    fn a_crowd_has_most_of_all_processes() {
        let of = |processes: &[u64]| {
            let usage =
                |(lease, &processes)| LeaseUsage { lease, processes, ..LeaseUsage::default() };
            let requests: Vec<_> = (0..).zip(processes).map(usage).collect();
            crowd(&requests).map(|victim| (victim.lease, victim.limit, victim.used))
        };
        assert_eq!(of(&[3, 490, 3]), Some((1, 496, 490)));
        assert_eq!(of(&[3, 20, 3]), None, "too few to be the reason");
        assert_eq!(of(&[100, 100, 100]), None, "ordinary load");
        assert_eq!(of(&[]), None);
    }
}
