//! The parts of the container that requests do not get.

use super::{show, whole};
use crate::container::{Bound, Container};

pub(super) const MIB: u64 = 1 << 20;

/// Least memory for supervisor and spawner. Measured: 13 MB with ten plugins, and
/// 40 MB for the names of a repository of 500,000 files.
const LEAST_MEMORY: u64 = 96 * MIB;

/// The reserve is this part of the container, as a divisor: more memory serves
/// more clients, whose windows are in the supervisor.
const MEMORY_DIVISOR: u64 = 8;

/// More memory than this the supervisor cannot use: windows of all clients that wait
/// (512 MiB), of as many that wait for places of their own plugins, and indexes of
/// names (64 MiB).
const MOST_MEMORY: u64 = 1536 * MIB;

/// Processes and threads of supervisor and spawner: the supervisor has at most 35
/// threads (28 and five others of `serve/threads.rs`, the first one, and one for the log),
/// the spawner is one process with two standbys, a census, a meter, a cleaner and four
/// enders. The rest is for probes and commands of people.
pub(super) const PROCESSES: u64 = 64;

/// A container without a limit gets this part of its node, as a divisor, because
/// other Pods need the node too.
const NODE_DIVISOR: u64 = 2;

/// No reserve takes more than this part of the container, as a divisor.
const MOST_DIVISOR: u64 = 2;

/// An output of n bytes takes up to 3n while it is parsed.
pub(super) const RESPONSE_FACTOR: u64 = 3;

/// Outputs share this part of the memory for outputs, as a divisor. The rest is for
/// one request that needs more than what is free.
const SHARED_OUTPUTS: u64 = 4;

/// Outputs get this part of the container at most, and at least, as divisors.
const MOST_OUTPUTS: u64 = 4;
const LEAST_OUTPUTS: u64 = 16;

/// Descriptors of the supervisor itself: 24 without plugins, one for the socket of
/// each plugin, and 64 for connections of each HTTP server. The rest is an estimate.
const DESCRIPTORS: u64 = 192;

/// Memory of a container and its parts.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) reserve: u64,
    pub(super) outputs: u64,
    pub(super) requests: u64,
    bound: Bound,
}

impl Memory {
    pub(super) fn of(container: &Container, message: u64) -> Self {
        Self::split(container.memory.clone(), message)
    }

    fn split(bound: Bound, message: u64) -> Self {
        let limit = usable(&bound);
        let reserve = (limit / MEMORY_DIVISOR).clamp(LEAST_MEMORY, MOST_MEMORY);
        let reserve = reserve.min(limit / MOST_DIVISOR);
        let enough = with_shared(message.saturating_mul(RESPONSE_FACTOR));
        let outputs = enough.min(limit / MOST_OUTPUTS).max(limit / LEAST_OUTPUTS);
        let requests = whole(limit - reserve - outputs);
        Self { reserve, outputs, requests, bound }
    }

    /// Leaves memory to failed requests that are kept in it.
    pub(super) fn without(self, bundles: u64) -> Self {
        Self { requests: whole(without(self.requests, bundles)), ..self }
    }

    /// The parts of a container with a limit of its own.
    pub(super) fn limited(amount: u64, message: u64) -> Self {
        Self::split(Bound { amount, source: String::new(), is_own: true }, message)
    }

    pub(super) fn origin(&self) -> String {
        let (reserve, outputs) = (show(self.reserve), show(self.outputs));
        format!("{} minus {reserve} for the supervisor and {outputs} for outputs", self.container())
    }

    pub(super) fn container(&self) -> String {
        let Bound { amount, source, is_own } = &self.bound;
        if *is_own {
            format!("container limit {} ({source})", show(*amount))
        } else {
            format!("no known container limit, so half of {} ({source})", show(*amount))
        }
    }

    /// Memory that the container needs so that requests get `wanted`.
    pub(super) fn needed(wanted: u64, message: u64) -> u64 {
        const STEP: u64 = 64 * MIB;
        let gets = |limit| Self::limited(limit, message).requests;
        let enough = |steps: &u64| gets(steps * STEP) >= wanted;
        let (mut low, mut high) = (0, wanted.div_ceil(STEP).saturating_mul(4).min(u64::MAX / STEP));
        while low < high {
            let middle = low + (high - low) / 2;
            if enough(&middle) { high = middle } else { low = middle + 1 }
        }
        high * STEP
    }
}

/// The bytes that failed requests leave to requests: at least half.
pub(super) fn without(bytes: u64, bundles: u64) -> u64 {
    bytes - bundles.min(bytes / MOST_DIVISOR)
}

/// Memory for outputs of which one request may have `alone`.
fn with_shared(alone: u64) -> u64 {
    alone.saturating_mul(SHARED_OUTPUTS) / (SHARED_OUTPUTS - 1)
}

/// The part of the memory for outputs that outputs share.
pub(super) fn shared(outputs: u64) -> u64 {
    outputs / SHARED_OUTPUTS
}

/// The amount of a limit, or half of the node's.
pub(super) fn usable(bound: &Bound) -> u64 {
    if bound.is_own { bound.amount } else { bound.amount / NODE_DIVISOR }
}

/// Processes of the container without those of supervisor and spawner, and the
/// origin of the number.
pub(super) fn processes(bound: &Bound) -> (u64, String) {
    let usable = usable(bound);
    let reserve = PROCESSES.min(usable / MOST_DIVISOR);
    let Bound { amount, source, is_own } = bound;
    let limit = if *is_own {
        format!("container limit {amount} ({source})")
    } else {
        format!("no known container limit, so half of {amount} ({source})")
    };
    (usable - reserve, format!("{limit} minus {reserve} for the supervisor"))
}

/// Descriptors for connections and requests.
pub(super) fn descriptors(bound: &Bound) -> u64 {
    bound.amount - DESCRIPTORS.min(bound.amount / MOST_DIVISOR)
}
