//! The share of the container that requests may use, derived from its limits.
//!
//! Pure: [`crate::container`] reads, this decides. Every number knows its origin.

mod derive;
mod fit;
mod reserve;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use cmp_sandbox::Bounds;
use serde::{Deserialize, Serialize};

pub(crate) use self::derive::{WAITING, WINDOW};
use crate::{
    container::Container,
    metrics::Shared,
    settings::{Limit, MEMORY},
};

/// A number, and the limit or setting it comes from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Share<T> {
    /// The number.
    pub amount: T,
    /// Its origin, for people: `container limit 1Gi (cgroup v2 memory.max) minus …`.
    pub origin: Cow<'static, str>,
}

/// The part of the disk, as a divisor, that requests leave free. It is above the
/// low-water mark of the volume, which is 1/20 and at most 32 MiB.
const FREE_PART_OF_DISK: u64 = 16;

/// Shared repositories have this part of the leases at most, as a divisor.
const REPOSITORIES_DIVISOR: u32 = 8;

/// Requests that generate leave this part of the leases to discovery, as a divisor.
const DISCOVERY_DIVISOR: u32 = 8;

/// The parts of the container that requests share.
///
/// A resized container changes it; get it anew from the `watch` for each decision.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Most requests that may run at a time. Half of the leases by default, and a quarter
    /// if it is set: others are being cleaned up, or run discovery.
    pub requests: Share<usize>,
    /// The limit that `requests` follows from.
    #[serde(skip)]
    pub places_from: PlacesFrom,
    /// Most leases at a time.
    pub leases: Share<u32>,
    /// Bytes for the processes of all requests together, and for their files if
    /// the work volume is in memory. Outputs are not part of it.
    pub memory: Share<u64>,
    /// Processes and threads of all requests together.
    pub processes: Share<u64>,
    /// Bytes for the files of all requests together.
    pub disk: Share<u64>,
    /// Files and directories of all requests together; `None` for no limit.
    pub files: Share<Option<u64>>,
    /// Bytes that the supervisor may hold at a time for outputs and everything
    /// that is made of them, all requests together.
    pub outputs: Share<u64>,
    /// Bytes of decompressed archives that are kept for later requests, and of
    /// repositories in memory that they share, minus those of requests that wait: [`Self::archives_beside`].
    pub archives: Share<u64>,
    /// Requests that may wait at a time.
    pub queue: Share<usize>,
    /// Connections of clients that may be open at a time.
    pub connections: Share<usize>,
    /// Whole processors that the container may use; `None` if only the node limits them.
    pub processors: Option<u64>,
    /// True if files of requests count as memory.
    pub in_memory: bool,
    /// Limits of one request, unless its plugin sets others.
    pub each: Each,
    /// Settings that cannot fit the container, with the remedy.
    pub warnings: Vec<String>,
}

/// The limit from which the number of requests at a time follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacesFrom {
    /// `--max-requests`.
    #[default]
    Setting,
    /// The number of leases.
    Leases,
    /// The least memory of a request.
    Memory,
    /// The fewest processes of a request.
    Processes,
    /// The descriptors of a request.
    Descriptors,
}

/// Limits of one request; `None` means no limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Each {
    /// Bytes of memory.
    pub memory: Share<Option<u64>>,
    /// Processes and threads.
    pub processes: Share<Option<u64>>,
    /// Bytes of each file.
    pub file_size: Share<Option<u64>>,
    /// Bytes of all files.
    pub disk: Share<Option<u64>>,
    /// Files and directories.
    pub files: Share<Option<u64>>,
    /// Bytes of a command's output.
    pub output: Share<Option<u64>>,
    /// Bytes of an unpacked repository.
    pub repository: Share<Option<u64>>,
    /// Files and directories of a repository.
    pub repository_files: Share<Option<u64>>,
}

/// The settings of the user; `None` for those to derive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// UIDs of `--uid-range`.
    pub uids: u32,
    /// Leases that the spawner could create, once it is known.
    pub leases: Option<u32>,
    /// Longest message of gRPC in bytes.
    pub message: u64,
    /// Bytes of the work volume for failed requests that are kept.
    pub bundles: u64,
    /// `--max-requests`.
    pub requests: Option<u32>,
    /// `--max-queue`.
    pub queue: Option<u32>,
    /// `--max-memory`.
    pub memory: Option<Limit>,
    /// `--max-processes`.
    pub processes: Option<Limit>,
    /// `--max-file-size`.
    pub file_size: Option<Limit>,
    /// `--max-disk`.
    pub disk: Option<Limit>,
    /// `--max-files`.
    pub files: Option<Limit>,
    /// `--max-output`.
    pub output: Option<u64>,
    /// `--max-repository`.
    pub repository: Option<u64>,
    /// `--max-repository-files`.
    pub repository_files: Option<u32>,
}

impl<T> Share<T> {
    /// A number with its origin.
    pub fn new(amount: T, origin: impl Into<Cow<'static, str>>) -> Self {
        Self { amount, origin: origin.into() }
    }
}

impl Each {
    /// The limits of a request, with the grants of `general`.
    #[must_use]
    pub fn bounds(&self, general: &Bounds) -> Bounds {
        Bounds {
            memory: self.memory.amount,
            processes: self.processes.amount,
            file_size: self.file_size.amount,
            disk: self.disk.amount,
            files: self.files.amount,
            ..general.clone()
        }
    }
}

impl Budget {
    /// Derives everything that is not given.
    #[must_use]
    pub fn derive(container: &Container, given: &Given) -> Self {
        let derived = derive::derive(container, given);
        Self { warnings: fit::warnings(&derived, container, given), ..derived }
    }

    /// Bytes of `outputs` that outputs share. One request that needs more than what
    /// is free of it may have the others.
    #[must_use]
    pub fn shared_outputs(&self) -> u64 {
        reserve::shared(self.outputs.amount)
    }

    /// Most repositories that requests may share at a time. Each takes a lease.
    #[must_use]
    pub fn repositories(&self) -> u32 {
        self.leases.amount / REPOSITORIES_DIVISOR
    }

    /// Most leases of requests that generate. Discovery and shared repositories have the
    /// others: Argo CD would apply the raw files if discovery waited for generate.
    #[must_use]
    pub fn leases_of_generate(&self) -> u32 {
        let leases = self.leases.amount;
        let discovery = (leases / DISCOVERY_DIVISOR).max(1);
        leases.saturating_sub(discovery + self.repositories()).max(leases.min(1))
    }

    /// Bytes of `disk` that all requests may use together. If they used all, those of
    /// other plugins could not begin.
    #[must_use]
    pub fn shared_disk(&self) -> u64 {
        self.disk.amount - self.disk.amount / FREE_PART_OF_DISK
    }

    /// Calls that may be open at a time: twice as many as may run and wait, because of others
    /// the repository is still being packed, or they send the rest of an archive that nobody
    /// needs. A smaller queue leaves its memory to them.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        let by_memory = usize::try_from(self.archives.amount / derive::WAITER);
        let twice = self.queue.amount.saturating_add(self.requests.amount).saturating_mul(2);
        twice.max(by_memory.unwrap_or(usize::MAX))
    }

    /// Bytes of decompressed archives beside a number of waiting requests that hold so many
    /// bytes more than each of them may.
    #[must_use]
    pub fn archives_beside(&self, waiting: usize, held: u64) -> u64 {
        let each = WAITING.saturating_mul(waiting as u64);
        self.archives.amount.saturating_sub(each.saturating_add(held))
    }

    /// Bytes that waiting requests may hold together. A given queue may be longer than the
    /// memory for it.
    #[must_use]
    pub fn memory_of_waiting(&self) -> u64 {
        self.archives.amount.max(WAITING.saturating_mul(self.queue.amount as u64))
    }

    /// Names and amounts of what all requests share, for metrics. Of `outputs`, it is the part
    /// whose use is measured: the rest is for one request at a time.
    #[must_use]
    pub fn amounts(&self) -> [(Shared, u64); 9] {
        let Self {
            requests, leases, memory, processes, disk, archives, queue, connections, ..
        } = self;
        [
            (Shared::Requests, requests.amount as u64),
            (Shared::Leases, leases.amount.into()),
            (Shared::Memory, memory.amount),
            (Shared::Processes, processes.amount),
            (Shared::Disk, disk.amount),
            (Shared::Outputs, self.shared_outputs()),
            (Shared::Archives, archives.amount),
            (Shared::Queue, queue.amount as u64),
            (Shared::Connections, connections.amount as u64),
        ]
    }

    /// One line with the shares and their origins.
    #[must_use]
    pub fn line(&self) -> String {
        let parts = self.rows().map(|(name, amount, origin)| format!("{name} {amount}: {origin}"));
        parts.join("; ")
    }

    /// Names, amounts and origins of what all requests share, for people.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, String, &str); 8] {
        let Self {
            requests, memory, processes, disk, outputs, archives, queue, connections, ..
        } = self;
        [
            ("requests", requests.amount.to_string(), &requests.origin),
            ("memory", show(memory.amount), &memory.origin),
            ("processes", processes.amount.to_string(), &processes.origin),
            ("disk", show(disk.amount), &disk.origin),
            ("outputs", show(outputs.amount), &outputs.origin),
            ("archives", show(archives.amount), &archives.origin),
            ("waiting requests", queue.amount.to_string(), &queue.origin),
            ("connections", connections.amount.to_string(), &connections.origin),
        ]
    }
}

/// Memory limit of a container in which all requests together have `wanted` bytes, if
/// the longest gRPC message has `message` bytes.
pub(crate) fn container_for_requests(wanted: u64, message: u64) -> u64 {
    reserve::Memory::needed(wanted, message)
}

/// Memory that all requests together have in a container with this limit.
pub(crate) fn memory_of_requests(limit: u64, message: u64) -> u64 {
    reserve::Memory::limited(limit, message).requests
}

/// A size for people, in whole MiB if it is at least one.
pub(crate) fn show(bytes: u64) -> String {
    MEMORY.say(whole(bytes))
}

/// Whole MiB; all bytes if there is less than one.
fn whole(bytes: u64) -> u64 {
    if bytes < reserve::MIB { bytes } else { bytes / reserve::MIB * reserve::MIB }
}
