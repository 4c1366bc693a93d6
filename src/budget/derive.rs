//! The numbers that follow from the container and from what is given.

use std::borrow::Cow;

use cmp_sandbox::most_leases;

use super::{
    Budget, Each, Given, PlacesFrom, Share,
    reserve::{self, MIB, Memory, RESPONSE_FACTOR},
    show, whole,
};
use crate::{
    container::{Bound, Container, PROCESSOR, Volume},
    settings::Limit,
};

/// Leases are 3/4 of what the range of UIDs allows. The other UIDs are left to `doctor`,
/// `render` and a successor in the same container.
const LEASE_PART: (u32, u32) = (3, 4);

/// Leases for each place of `--max-requests`: one for generate, one for
/// discovery, and for each of the two another that is being cleaned up.
const LEASES_PER_PLACE: u32 = 4;

/// Leases for each place if places are derived from leases.
const LEAST_LEASES_PER_PLACE: u32 = 2;

/// The least that a request takes: a worker and a shell that waits, and the
/// process that stands by to end them.
pub(super) const LEAST_MEMORY: u64 = 8 * MIB;
pub(super) const LEAST_PROCESSES: u64 = 3;

/// Descriptors that the supervisor has open for a running request, its
/// connection not included: sockets and pipes of its workers, and the file for its turn
/// to use the last part of a volume in memory.
pub(super) const DESCRIPTORS_PER_REQUEST: u64 = 12;

/// Requests take this part of the descriptors at most, as a divisor.
const DESCRIPTORS_DIVISOR: u64 = 2;

/// Most that one request gets by default: of memory, of processes, of disk, of
/// files, and of one file. Enough for big renderings; a plugin can ask for more.
const MOST_MEMORY: u64 = 2048 * MIB;
const MOST_PROCESSES: u64 = 4096;
const MOST_DISK: u64 = 8192 * MIB;
const MOST_FILES: u64 = 1_000_000;
const MOST_FILE_SIZE: u64 = 4096 * MIB;

/// A request gets half of what there is, or this much memory if there is less:
/// many tools need it to start.
pub(super) const USEFUL_MEMORY: u64 = 128 * MIB;

/// Processes and threads of a shell and of one tool with a few threads.
pub(super) const USEFUL_PROCESSES: u64 = 8;

/// Largest repository by default.
const MOST_REPOSITORY: u64 = 4096 * MIB;
const MOST_REPOSITORY_FILES: u64 = 500_000;

/// Flow-control window in bytes of a stream: the smallest that HTTP/2 clients expect. The
/// share for archives lends wider ones while it has room.
pub(crate) const WINDOW: u32 = 64 << 10;

/// Memory of a waiting request without its window: connection, task and headers.
pub(super) const WAITER: u64 = 64 << 10;

/// Memory of a waiting request with its window.
pub(crate) const WAITING: u64 = WAITER + WINDOW as u64;

/// Memory of a connection without a call: 18 KB, measured with 4,700 of them.
pub(super) const CONNECTION: u64 = 20 << 10;

/// Connections without calls, together, get this part of the reserve at most, as a divisor.
pub(super) const CONNECTIONS_DIVISOR: u64 = 4;

/// Waiting requests, together, get this part of the reserve.
const QUEUE_DIVISOR: u64 = 2;

/// More clients do not wait: their deadlines pass before it is their turn.
const MOST_QUEUE: u64 = 4096;

/// Derives everything but the warnings.
pub(super) fn derive(container: &Container, given: &Given) -> Budget {
    let in_memory = container.volume.in_memory;
    let bundles = if in_memory { given.bundles } else { 0 };
    let memory = Memory::of(container, given.message).without(bundles);
    let (processes, processes_origin) = reserve::processes(&container.processes);
    let descriptors = reserve::descriptors(&container.descriptors);
    let leases = leases(given);
    let shares = [
        (memory.requests / LEAST_MEMORY, PlacesFrom::Memory),
        (processes / LEAST_PROCESSES, PlacesFrom::Processes),
        (descriptors / DESCRIPTORS_DIVISOR / DESCRIPTORS_PER_REQUEST, PlacesFrom::Descriptors),
    ];
    let (requests, places_from) = requests(given, &leases, shares);
    let left = descriptors.saturating_sub(requests.amount as u64 * DESCRIPTORS_PER_REQUEST).max(1);
    let (disk, files) = volume(&container.volume, memory.requests, given.bundles);
    let outputs = Share::new(memory.outputs, format!("part of {}", memory.container()));
    let mut budget = Budget {
        queue: queue(given, &memory),
        each: each(given, &memory, processes, (disk.amount, files.amount)),
        requests,
        places_from,
        leases,
        processes: Share::new(processes, processes_origin),
        disk,
        files,
        archives: archives(&memory),
        outputs,
        connections: Share::default(),
        processors: processors(container),
        in_memory,
        memory: Share::new(memory.requests, memory.origin()),
        warnings: Vec::new(),
    };
    budget.connections = connections(&budget, memory.reserve, (left, &container.descriptors));
    budget
}

/// Connections for which there are descriptors and memory: one for each call that may be
/// open, or more if they are idle.
fn connections(budget: &Budget, reserve: u64, (left, descriptors): (u64, &Bound)) -> Share<usize> {
    let number = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
    let by_memory = number(reserve / CONNECTIONS_DIVISOR / CONNECTION).max(budget.open_calls());
    let left = number(left);
    if left <= by_memory {
        let Bound { source, amount, .. } = descriptors;
        let origin = format!("{source} of {amount}, minus those of requests and of the supervisor");
        return Share::new(left, origin);
    }
    let origin = format!("a quarter of {} for the supervisor, or open calls", show(reserve));
    Share::new(by_memory, origin)
}

/// Processors of the container, rounded up.
fn processors(container: &Container) -> Option<u64> {
    let own = Some(&container.cpu).filter(|cpu| cpu.is_own);
    own.map(|cpu| cpu.amount.div_ceil(PROCESSOR).max(1))
}

/// Most leases: the spawner's number if it is known, and else the wanted one.
fn leases(given: &Given) -> Share<u32> {
    let pairs = most_leases(given.uids);
    let (part, of) = LEASE_PART;
    let derived = (pairs / of * part).max(1);
    let wanted = match given.requests {
        Some(requests) => requests.saturating_mul(LEASES_PER_PLACE).min(pairs.max(1)),
        None => derived,
    };
    match given.leases {
        Some(leases) => Share::new(leases, "leases that the spawner could create"),
        None => Share::new(wanted, format!("--uid-range of {} UIDs", given.uids)),
    }
}

fn requests(
    given: &Given,
    leases: &Share<u32>,
    shares: [(u64, PlacesFrom); 3],
) -> (Share<usize>, PlacesFrom) {
    if let Some(requests) = given.requests {
        return (Share::new(requests as usize, "--max-requests"), PlacesFrom::Setting);
    }
    let by_leases = u64::from(leases.amount / LEAST_LEASES_PER_PLACE);
    let tightest = shares.into_iter().min_by_key(|(count, _)| *count);
    let tightest = tightest.filter(|(count, _)| *count < by_leases);
    let (count, from) = tightest.unwrap_or((by_leases, PlacesFrom::Leases));
    let origin = match from {
        PlacesFrom::Memory => "the least that a request needs of memory".into(),
        PlacesFrom::Processes => "the least that a request needs of processes".into(),
        PlacesFrom::Descriptors => "the least that a request needs of descriptors".into(),
        PlacesFrom::Leases | PlacesFrom::Setting => {
            Cow::Owned(format!("half of {} leases ({})", leases.amount, leases.origin))
        }
    };
    let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    (Share { amount: count, origin }, from)
}

fn queue(given: &Given, memory: &Memory) -> Share<usize> {
    if let Some(queue) = given.queue {
        return Share::new(queue as usize, "--max-queue");
    }
    let by_memory = memory.reserve / QUEUE_DIVISOR / WAITING;
    let count = by_memory.min(MOST_QUEUE);
    let origin = if count == MOST_QUEUE {
        Cow::Borrowed("the most that is useful")
    } else {
        format!("half of {} for the supervisor", show(memory.reserve)).into()
    };
    Share::new(usize::try_from(count).unwrap_or(usize::MAX), origin)
}

/// The memory of waiting requests, as long as few wait.
fn archives(memory: &Memory) -> Share<u64> {
    let origin = format!("what waiting requests leave of half of {}", show(memory.reserve));
    Share::new(memory.reserve / QUEUE_DIVISOR, origin)
}

/// Bytes and files for all requests together. Files in memory are part of the
/// requests' memory.
fn volume(volume: &Volume, memory: u64, bundles: u64) -> (Share<u64>, Share<Option<u64>>) {
    let (size, free) = (show(volume.size), show(volume.free));
    let left = |bytes: u64| whole(reserve::without(bytes, bundles));
    let disk = match volume.in_memory {
        true if left(volume.size) > memory => {
            Share::new(memory, "files in memory are part of memory")
        }
        true => Share::new(left(volume.size), format!("size {size} of the work volume in memory")),
        false => Share::new(left(volume.free), format!("free space {free} of the work volume")),
    };
    let inodes = if volume.in_memory { volume.inodes } else { volume.free_inodes };
    let files = match inodes {
        Some(inodes) => Share::new(Some(inodes), "inodes of the work volume"),
        None => Share::new(None, "the work volume does not limit inodes"),
    };
    (disk, files)
}

/// The limits of one request: those that are given, and else a part of what all
/// requests have together.
fn each(given: &Given, memory: &Memory, processes: u64, (disk, files): (u64, Option<u64>)) -> Each {
    let useful = (memory.requests / 2).max(memory.requests.min(USEFUL_MEMORY));
    let half_disk = whole(disk / 2).max(1);
    let largest_file =
        given.disk.map_or(half_disk.min(MOST_DISK), |disk| disk.0.unwrap_or(u64::MAX));
    let alone = memory.outputs - reserve::shared(memory.outputs);
    let output = whole(alone / RESPONSE_FACTOR).max(1);
    let number = |given: Option<u64>| given.map(|number| Limit(Some(number)));
    let half = "half of what all requests have";
    let inodes = files.unwrap_or(u64::MAX);
    Each {
        memory: one((given.memory, "--max-memory"), MOST_MEMORY, (whole(useful), half)),
        processes: one((given.processes, "--max-processes"), MOST_PROCESSES, (processes / 2, half)),
        disk: one((given.disk, "--max-disk"), MOST_DISK, (half_disk, half)),
        files: one((given.files, "--max-files"), MOST_FILES, (inodes / 2, half)),
        file_size: one(
            (given.file_size, "--max-file-size"),
            MOST_FILE_SIZE,
            (largest_file, "as much as the limit for all files of a request"),
        ),
        output: one(
            (number(given.output), "--max-output"),
            given.message,
            (output, "a third of the memory that one request may have for outputs"),
        ),
        repository: one(
            (number(given.repository), "--max-repository"),
            MOST_REPOSITORY,
            (disk.max(1), "what all requests have for files"),
        ),
        repository_files: one(
            (number(given.repository_files.map(u64::from)), "--max-repository-files"),
            MOST_REPOSITORY_FILES,
            (inodes, "inodes of the work volume"),
        ),
    }
}

/// A limit of one request: the given one, or the smaller of the usual one and a
/// part of what there is.
fn one(
    (given, flag): (Option<Limit>, &'static str),
    usual: u64,
    (part, origin): (u64, &'static str),
) -> Share<Option<u64>> {
    match given {
        Some(limit) => Share::new(limit.0, flag),
        None if part < usual => Share::new(Some(part.max(1)), origin),
        None => Share::new(Some(usual), "the usual limit"),
    }
}
