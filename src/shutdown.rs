//! The phases of stopping, in order.

use std::time::Duration;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::state::State;

/// How long a client may be between two calls on one connection. Argo CD makes
/// the second as soon as it has packed the repository.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);

/// What is to be stopped.
#[derive(Debug)]
pub struct Shutdown {
    /// Says that no more work is welcome.
    pub state: watch::Sender<State>,
    /// Stops the loader, and the supervisor with every listener.
    pub stop: CancellationToken,
    /// Calls that have not ended.
    pub calls: TaskTracker,
    /// Connections that are open.
    pub connections: TaskTracker,
}

impl Shutdown {
    /// Waits for SIGTERM or SIGINT, then stops in order. `grace` is for the
    /// requests that are at work; a second signal cuts it short.
    pub async fn when_told(self, grace: Duration) {
        let Ok(mut told) = Told::new() else {
            warn!("cannot wait for signals: only SIGKILL will stop this");
            return std::future::pending().await;
        };
        told.wait().await;
        info!(grace = ?grace, "stopping");
        // 1. Nobody sends more.
        self.state.send_modify(|state| state.ready = false);
        // 2. The definitions stay as they are, and their sockets go.
        self.stop.cancel();
        // 3. What is at work finishes.
        let finished = tokio::select! {
            finished = timeout(grace, self.finish()) => finished.is_ok(),
            () = told.wait() => false,
        };
        if finished {
            info!("every request has ended");
        } else {
            warn!(calls = self.calls.len(), "requests are cut off");
        }
    }

    /// Waits for connections to be closed, or for nothing to happen on them.
    async fn finish(&self) {
        self.calls.close();
        self.connections.close();
        loop {
            self.calls.wait().await;
            tokio::select! {
                () = self.connections.wait() => return,
                () = sleep(BETWEEN_CALLS) => if self.calls.is_empty() { return },
            }
        }
    }
}

/// The signals that tell to stop.
struct Told {
    terminate: Signal,
    interrupt: Signal,
}

impl Told {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
