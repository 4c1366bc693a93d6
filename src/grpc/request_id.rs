//! Identifiers of calls.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

/// Numbers the calls, so that log lines of one call can be found.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Distinguishes the calls of this process from those of others in the same logs.
static PROCESS: LazyLock<u32> = LazyLock::new(rand::random);

/// The identifier of a new call.
pub(super) fn next() -> String {
    format!("{:08x}-{}", *PROCESS, CALLS.fetch_add(1, Ordering::Relaxed) + 1)
}
