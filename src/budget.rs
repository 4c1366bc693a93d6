//! What all requests together may use, derived from the container.
//!
//! Pure: [`crate::container`] reads, this decides. Every number knows its origin.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A number, and the limit or setting it comes from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Share<T> {
    /// The number.
    pub amount: T,
    /// Its origin, for people: `container limit 1Gi (cgroup v2 memory.max) minus …`.
    pub origin: Cow<'static, str>,
}

/// The parts of the container that requests share.
///
/// A resized container changes it; get it anew from the `watch` for each decision.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Most requests that may run at a time. Half of the leases: others are being
    /// cleaned up, or run discovery.
    pub requests: Share<usize>,
    /// Bytes for the processes of all requests together, and for their files if
    /// the work volume is in memory. Outputs are not part of it.
    pub memory: Share<u64>,
    /// Processes and threads of all requests together.
    pub processes: Share<u64>,
    /// Bytes that the supervisor may hold at a time for outputs and everything
    /// that is made of them, all requests together.
    pub response: Share<u64>,
    /// Flow-control window in bytes of a request that waits for its place.
    pub window: Share<u32>,
    /// Requests that may wait at a time.
    pub queue: Share<usize>,
    /// True if files of requests count as memory.
    pub in_memory: bool,
}

impl<T> Share<T> {
    /// A number with its origin.
    pub fn new(amount: T, origin: impl Into<Cow<'static, str>>) -> Self {
        Self { amount, origin: origin.into() }
    }
}

/// Numbers before anything is known about the container.
const MEMORY: u64 = 896 << 20;
const PROCESSES: u64 = 4096;
const RESPONSE: u64 = 256 << 20;
const WINDOW: u32 = 64 << 10;

impl Budget {
    /// The budget of a container whose limits are unknown.
    #[must_use]
    pub fn unknown(requests: usize, queue: usize) -> Self {
        let unknown = "the container's limits are unknown";
        Self {
            requests: Share::new(requests, "--max-requests"),
            memory: Share::new(MEMORY, unknown),
            processes: Share::new(PROCESSES, unknown),
            response: Share::new(RESPONSE, unknown),
            window: Share::new(WINDOW, unknown),
            queue: Share::new(queue, "--max-queue"),
            in_memory: true,
        }
    }
}
