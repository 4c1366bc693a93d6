//! Signals that end `render`, `match`, `params` and `doctor` early.

use std::{future::poll_fn, task::Poll};

use cmp_procfs::Fields;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;

/// The signal that ended a command early.
#[derive(Clone, Copy, Debug, Error)]
#[error("ended by {name}")]
pub struct Interrupted {
    name: &'static str,
    number: i32,
}

impl Interrupted {
    /// The program's exit code.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        u8::try_from(self.number).unwrap_or_default() + exit::SIGNAL_BASE
    }
}

/// Waits for SIGHUP, SIGINT or SIGTERM. A signal that the parent process ignored
/// stays ignored, as `nohup` and background jobs of scripts expect.
pub async fn interrupted() -> Interrupted {
    let mut signals = listen();
    poll_fn(|context| {
        for (name, kind, signal) in &mut signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(Interrupted { name, number: kind.as_raw_value() });
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
