//! Looking whenever there is a reason to.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{Loader, watch::Watch};
use crate::state::State;

/// How long a directory has to be quiet before it is read: editors take several
/// steps, and the first of them is not the one that counts.
const QUIET: Duration = Duration::from_millis(100);

/// The same for a `ConfigMap` volume, which changes in one step. Only links and
/// the removal of old files follow, so that one look is enough for all of it.
const QUIET_VOLUME: Duration = Duration::from_millis(25);

/// How long a directory that is never quiet is left alone.
const RESTLESS: Duration = Duration::from_secs(2);

/// Time between two looks without a hint, while the kernel would give one.
const POLL: Duration = Duration::from_secs(5);

/// Time between two looks while it would not.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);

/// Hints that may wait; one is as good as many.
const HINTS: usize = 1;

/// Requests for a look that may wait.
const REQUESTS: usize = 16;

/// Makes a loader look. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prompt {
    hints: mpsc::Sender<()>,
    requests: mpsc::Sender<oneshot::Sender<State>>,
}

/// What a loader is made to look by.
#[derive(Debug)]
pub(super) struct Prompted {
    hints: mpsc::Receiver<()>,
    requests: mpsc::Receiver<oneshot::Sender<State>>,
}

/// Why a loader looks.
enum Reason {
    /// Time has passed.
    Poll,
    /// Something changed, or somebody thinks so.
    Hint,
    /// Somebody waits for the result.
    Request(oneshot::Sender<State>),
}

impl Prompt {
    pub(super) fn new() -> (Self, Prompted) {
        let (hints, hints_receiver) = mpsc::channel(HINTS);
        let (requests, requests_receiver) = mpsc::channel(REQUESTS);
        let prompted = Prompted { hints: hints_receiver, requests: requests_receiver };
        (Self { hints, requests }, prompted)
    }

    /// Has the loader look soon.
    pub fn hint(&self) {
        // Full means that a hint is waiting.
        let _ = self.hints.try_send(());
    }

    /// Has the loader look now, and waits for what it finds; `None` if it has
    /// ended.
    pub async fn look(&self) -> Option<State> {
        let (sender, state) = oneshot::channel();
        self.requests.send(sender).await.ok()?;
        state.await.ok()
    }
}

impl Prompted {
    async fn reason(&mut self, pause: Duration) -> Reason {
        tokio::select! {
            Some(sender) = self.requests.recv() => Reason::Request(sender),
            Some(()) = self.hints.recv() => Reason::Hint,
            () = sleep(pause) => Reason::Poll,
        }
    }

    /// Waits until there was no hint for a while, or somebody waits.
    async fn settle(&mut self, quiet: Duration) -> Reason {
        let latest = Instant::now() + RESTLESS;
        loop {
            let until = (Instant::now() + quiet).min(latest);
            tokio::select! {
                Some(sender) = self.requests.recv() => return Reason::Request(sender),
                Some(()) = self.hints.recv() => {}
                () = sleep_until(until) => return Reason::Hint,
            }
        }
    }
}

impl Loader {
    /// Follows the definitions until `stop`. What prompts it is the second part.
    pub fn follow(self, stop: CancellationToken) -> (impl Future<Output = ()>, Prompt) {
        let (prompt, prompted) = Prompt::new();
        let watch = Watch::new(&self.reader.places, prompt.hints.clone(), self.metrics.clone());
        (self.run(watch, prompted, stop), prompt)
    }

    async fn run(self, watch: Watch, mut prompted: Prompted, stop: CancellationToken) {
        // What changed before there was a watch is found by the first look.
        let (mut parts, mut reason) = ((self, watch), Reason::Poll);
        loop {
            let since = Instant::now();
            if matches!(reason, Reason::Hint) {
                reason = prompted.settle(parts.0.quiet()).await;
            }
            let is_poll = matches!(reason, Reason::Poll);
            let look = spawn_blocking(move || {
                let (mut loader, mut watch) = parts;
                let state = loader.look(&mut watch, is_poll, since);
                ((loader, watch), state)
            });
            let Ok((returned, state)) = look.await else {
                error!("the definitions are no longer followed: restart to have changes served");
                return;
            };
            parts = returned;
            let pause = if state.watching { POLL } else { POLL_UNWATCHED };
            if let Reason::Request(waiting) = reason {
                // Whoever asked may have gone.
                let _ = waiting.send(state);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                next = prompted.reason(pause) => reason = next,
            }
        }
    }

    fn quiet(&self) -> Duration {
        if self.reader.places.is_volume() { QUIET_VOLUME } else { QUIET }
    }

    fn look(&mut self, watch: &mut Watch, is_poll: bool, since: Instant) -> State {
        self.watching = watch.renew();
        let before = self.state.borrow().clone();
        // A failure is logged, and part of the state.
        let _ = self.load();
        let state = self.state.borrow().clone();
        if !is_poll || is_news(&before, &state) {
            self.metrics.reloaded(state.result, since.elapsed());
        }
        state
    }
}

/// Whether a look found anything else than the one before.
fn is_news(before: &State, after: &State) -> bool {
    let of = |state: &State| (state.generation, state.kept.is_some(), state.is_good());
    of(before) != of(after) || before.problems != after.problems
}
