//! Stops the parts in order.

use std::{
    future::pending,
    io::{self, stdin},
    os::fd::AsFd,
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::state::State;

/// Longest pause between two calls on one connection. Argo CD makes the second
/// call as soon as it has the credentials of the repository.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);

/// Longest wait for the answers to requests that were cut off.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Longest wait for the bundles of the last failed requests.
const LAST_BUNDLES: Duration = Duration::from_secs(2);

/// The parts to stop.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Its `stopping` tells Kubernetes to send no more requests.
    pub(super) state: watch::Sender<State>,
    /// Time in which sockets stay: the repo-server of an ordinary sidecar gets the same
    /// signal, and still finishes its requests.
    pub(super) delay: Duration,
    /// Stops the loader, and the supervisor with every listener.
    pub(super) stop: CancellationToken,
    /// Running calls.
    pub(super) calls: TaskTracker,
    /// Answers that are not sent yet.
    pub(super) answers: TaskTracker,
    /// Open connections.
    pub(super) connections: TaskTracker,
    /// Cuts off running calls.
    pub(super) cut_off: CancellationToken,
    /// Writes the bundles of failed requests.
    pub(super) bundles: LastTask,
}

/// A task that is needed until all requests have ended.
#[derive(Debug, Default)]
pub(super) struct LastTask {
    /// Tells the task that no further request runs.
    pub(super) stop: CancellationToken,
    /// Owns the task.
    pub(super) tasks: TaskTracker,
}

impl LastTask {
    /// Ends the task and waits for it, up to [`LAST_BUNDLES`].
    async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(LAST_BUNDLES, self.tasks.wait()).await.is_err() {
            warn!(limit = ?LAST_BUNDLES, "the last failed requests are not kept: writing them takes too long");
        }
    }
}

impl Shutdown {
    /// Waits for a signal, then stops in order. Running requests get `grace`, of which
    /// the delay is a part; a second signal ends it at once.
    pub(super) async fn on_signal(self, mut signals: StopSignals, grace: Duration) {
        signals.wait().await;
        info!(grace = ?grace, delay = ?self.delay, "stopping");
        // 1. Kubernetes sends no more requests.
        self.state.send_modify(|state| state.stopping = true);
        let left = self.delay(&mut signals, grace).await;
        // 2. No more reloads, and the sockets are removed.
        self.stop.cancel();
        // 3. Running requests finish.
        self.drain(&mut signals, left).await;
        // 4. The last failed requests are kept.
        self.bundles.end().await;
    }

    /// Serves on for the delay, if that is still possible. Returns what is left of `grace`.
    async fn delay(&self, signals: &mut StopSignals, grace: Duration) -> Duration {
        // Kubernetes also stops a container whose liveness probe fails.
        let is_alive = self.state.borrow().liveness().iter().all(|check| check.ok);
        let delay = if is_alive { self.delay.min(grace) } else { Duration::ZERO };
        match timeout(delay, signals.wait()).await {
            Ok(()) => Duration::ZERO,
            Err(_elapsed) => grace.saturating_sub(delay),
        }
    }

    async fn drain(&self, signals: &mut StopSignals, grace: Duration) {
        let finished = tokio::select! {
            finished = timeout(grace, self.finish()) => finished.is_ok(),
            () = signals.wait() => false,
        };
        if finished {
            info!("all requests have ended");
        } else {
            self.end_calls().await;
        }
    }

    /// Ends the running calls. Each client gets its answer, if it reads it.
    async fn end_calls(&self) {
        let (calls, answers) = (self.calls.len(), self.answers.len());
        warn!(calls, answers, "cutting off the remaining requests");
        self.cut_off.cancel();
        let _ = timeout(LAST_ANSWERS, self.finish()).await;
    }

    /// Waits until all connections are closed or idle.
    async fn finish(&self) {
        let busy = [&self.calls, &self.answers];
        for tracker in [&self.calls, &self.answers, &self.connections] {
            tracker.close();
        }
        loop {
            for tracker in busy {
                tracker.wait().await;
            }
            tokio::select! {
                () = self.connections.wait() => return,
                () = sleep(BETWEEN_CALLS) => {
                    if busy.iter().all(|tracker| tracker.is_empty()) { return }
                }
            }
        }
    }
}

/// The signals that stop the program, SIGTERM and SIGINT, from now on. Before, the
/// kernel keeps them from a process with PID 1, which a container's first one has.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Standard input of a private supervisor.
    starter: Option<pipe::Receiver>,
}

impl StopSignals {
    /// Begins to receive signals. Call this within the runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            starter: None,
        })
    }

    /// Counts the end of standard input as a signal: the command that started a private
    /// supervisor holds its other end. That command may be killed, and without `CAP_KILL`
    /// it may not signal a supervisor that has another UID.
    pub(super) fn follow_starter(&mut self) -> io::Result<()> {
        let input = stdin().as_fd().try_clone_to_owned()?;
        self.starter = Some(pipe::Receiver::from_owned_fd(input)?);
        Ok(())
    }

    /// Waits for a signal while nothing is served yet.
    pub(super) async fn during_start(&mut self) {
        self.wait().await;
        info!("stopping before anything is served");
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = ended(&mut self.starter) => {}
        }
    }
}

/// Waits for the end of a pipe to which nobody writes. It comes once.
async fn ended(pipe: &mut Option<pipe::Receiver>) {
    match pipe {
        Some(open) => {
            while open.read_u8().await.is_ok() {}
            *pipe = None;
        }
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::state::{Component, Condition, report};

    const DELAY: Duration = Duration::from_secs(20);

    fn shutdown() -> Shutdown {
        Shutdown {
            state: watch::channel(State::default()).0,
            delay: DELAY,
            stop: CancellationToken::new(),
            calls: TaskTracker::new(),
            answers: TaskTracker::new(),
            connections: TaskTracker::new(),
            cut_off: CancellationToken::new(),
            bundles: LastTask::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_supervisor_that_works_serves_on() {
        let (shutdown, mut signals) = (shutdown(), StopSignals::new().unwrap());
        assert_eq!(shutdown.delay(&mut signals, 3 * DELAY).await, 2 * DELAY);
        assert_eq!(shutdown.delay(&mut signals, DELAY / 2).await, Duration::ZERO);
        let silent = Condition::Bad("it does not answer".to_owned());
        report(&shutdown.state, Component::Spawner, silent);
        assert_eq!(shutdown.delay(&mut signals, 3 * DELAY).await, 3 * DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_sent_are_waited_for() {
        let shutdown = shutdown();
        let (_open, answer) = (shutdown.connections.token(), shutdown.answers.token());
        let mut finish = pin!(shutdown.finish());
        assert!(timeout(10 * BETWEEN_CALLS, finish.as_mut()).await.is_err());
        drop(answer);
        assert!(timeout(2 * BETWEEN_CALLS, finish).await.is_ok());
    }
}
