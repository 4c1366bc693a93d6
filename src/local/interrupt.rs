//! Signals that end `render`, `match`, `params` and `doctor` early.

use std::{future::poll_fn, task::Poll};

use cmp_procfs::Fields;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::LocalError;

/// Waits for SIGHUP, SIGINT or SIGTERM. A signal that the parent process ignored
/// stays ignored, as `nohup` and background jobs of scripts expect.
pub async fn interrupted() -> LocalError {
    let mut signals = listen();
    poll_fn(|context| {
        for (name, kind, signal) in &mut signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(LocalError::Interrupted { name, number: kind.as_raw_value() });
            }
        }
        Poll::Pending
    })
    .await
}

fn listen() -> Vec<(&'static str, SignalKind, Signal)> {
    let ignored = ignored();
    [
        ("SIGHUP", SignalKind::hangup()),
        ("SIGINT", SignalKind::interrupt()),
        ("SIGTERM", SignalKind::terminate()),
    ]
    .into_iter()
    .filter(|(_, kind)| ignored >> (kind.as_raw_value() - 1) & 1 == 0)
    .filter_map(|(name, kind)| Some((name, kind, signal(kind).ok()?)))
    .collect()
}

/// Returns the ignored signals as a set of bits; bit 0 is signal 1.
fn ignored() -> u64 {
    Fields::own_status().ok().and_then(|status| status.bits("SigIgn")).unwrap_or_default()
}
