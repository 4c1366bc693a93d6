//! Processes that lose their parent in a container whose process 1 is the supervisor.

use rustix::process::{WaitOptions, getpid, wait};
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

/// Collects orphans that have ended, if this is process 1, which gets all of its container,
/// such as those of `kubectl exec`. Unless it collects them, they keep their PIDs. The
/// spawner may be among them: nobody asks how it ended.
pub(super) async fn collect() {
    if !getpid().is_init() {
        return;
    }
    match signal(SignalKind::child()) {
        Ok(mut ended) => {
            // The first ones may have ended before.
            loop {
                while let Ok(Some(_orphan)) = wait(WaitOptions::NOHANG) {}
                if ended.recv().await.is_none() {
                    return;
                }
            }
        }
        Err(error) => warn!(%error, "processes that lose their parent are not collected"),
    }
}
