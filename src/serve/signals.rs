//! The signals of a server.

use std::io;

use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::shutdown::StopSignals;
use crate::loader::Prompt;

/// The signals that the server obeys.
#[derive(Debug)]
pub(super) struct Signals {
    /// The signals that stop it.
    pub(super) stop: StopSignals,
    /// The signal that makes it read the definitions.
    pub(super) reload: ReloadSignal,
    /// SIGUSR1 and SIGUSR2, which write a profile in argocd-cmp-server. Here they only do
    /// not end the server.
    _without_effect: [Signal; 2],
}

/// SIGHUP.
#[derive(Debug)]
pub(super) struct ReloadSignal(Signal);

impl Signals {
    /// Begins to receive signals, and starts no thread. Signals that come before the
    /// server's runtime exists wait for it.
    pub(super) fn listen() -> io::Result<Self> {
        // The handlers belong to the process, so they stay when this runtime ends.
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let _entered = runtime.enter();
        let reload = ReloadSignal(signal(SignalKind::hangup())?);
        let without_effect =
            [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?];
        Ok(Self { stop: StopSignals::new()?, reload, _without_effect: without_effect })
    }
}

impl ReloadSignal {
    /// Reloads the definitions on each signal.
    pub(super) async fn follow(mut self, prompt: Prompt, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                received = self.0.recv() => if received.is_none() { return },
            }
            info!("reloading the definitions: received SIGHUP");
            prompt.hint();
        }
    }
}
