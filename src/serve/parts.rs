//! Background tasks that must run as long as the supervisor.

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::error;

/// Owns the tasks, and notices when one ends before it was stopped.
#[derive(Debug)]
pub(super) struct Parts {
    tasks: TaskTracker,
    stop: CancellationToken,
    lost: CancellationToken,
}

impl Parts {
    /// Creates an owner without tasks. They may end once `stop` is cancelled.
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { tasks: TaskTracker::new(), stop, lost: CancellationToken::new() }
    }

    /// The tracker, for tasks that may end at any time.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Runs a part. The supervisor ends if the part ends before it was stopped,
    /// because nobody would notice otherwise.
    pub(super) fn run(&self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        let (stop, lost) = (self.stop.clone(), self.lost.clone());
        self.tasks.spawn(async move {
            part.await;
            if !stop.is_cancelled() {
                error!(part = name, "a part of the supervisor ended before it was stopped");
                lost.cancel();
            }
        });
    }

    /// Waits until a part ended before it was stopped.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn a_part_that_ends_early_is_noticed() {
        let parts = Parts::new(CancellationToken::new());
        parts.run("short", ready(()));
        timeout(SHORT, parts.lost()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_may_end_after_the_stop() {
        let stop = CancellationToken::new();
        let parts = Parts::new(stop.clone());
        parts.run("long", stop.clone().cancelled_owned());
        assert!(timeout(SHORT, parts.lost()).await.is_err());
        stop.cancel();
        parts.tasks().close();
        parts.tasks().wait().await;
        assert!(timeout(SHORT, parts.lost()).await.is_err());
    }
}
