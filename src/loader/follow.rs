//! Decides when definitions are read again.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Loader, NoSnapshot, Snapshot, silence::Silence, watch::Watch};
use crate::state::State;

/// Time without changes before a directory is read. Editors write in several
/// steps, and only the last one leaves the complete file.
pub(super) const QUIET: Duration = Duration::from_millis(100);

/// Time without changes before a `ConfigMap` volume is read. It changes in one step; kubelet
/// only updates links and removes old files afterwards.
const QUIET_VOLUME: Duration = Duration::from_millis(25);

/// A directory that keeps changing is read after this time.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Interval between reads without a hint while the kernel reports changes.
const POLL: Duration = Duration::from_secs(5);

/// Interval between reads while the kernel does not report changes.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);

/// Most waiting hints; one has the same effect as many.
const HINTS: usize = 1;

/// Most waiting requests to read.
const REQUESTS: usize = 16;

/// Asks a loader to read again. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prompt {
    hints: mpsc::Sender<()>,
    requests: mpsc::Sender<oneshot::Sender<State>>,
}

/// The loader's ends of the channels of [`Prompt`].
#[derive(Debug)]
pub(super) struct Prompts {
    hints: mpsc::Receiver<()>,
    requests: mpsc::Receiver<oneshot::Sender<State>>,
}

/// Reason for reading again.
enum Reason {
    /// The interval has passed.
    Poll,
    /// The kernel reported a change, or a caller hinted at one.
    Hint,
    /// A caller waits for the result.
    Request(oneshot::Sender<State>),
}

impl Prompt {
    pub(super) fn new() -> (Self, Prompts) {
        let (hints, hints_receiver) = mpsc::channel(HINTS);
        let (requests, requests_receiver) = mpsc::channel(REQUESTS);
        let prompts = Prompts { hints: hints_receiver, requests: requests_receiver };
        (Self { hints, requests }, prompts)
    }

    /// Asks a loader that has ended.
    #[cfg(test)]
    pub(crate) fn unheard() -> Self {
        Self::new().0
    }

    /// Asks the loader to read soon.
    pub fn hint(&self) {
        // If the channel is full, a hint is already waiting.
        let _ = self.hints.try_send(());
    }

    /// Asks the loader to read now, and waits for the result; `None` if the
    /// loader has ended.
    pub async fn reload(&self) -> Option<State> {
        let (sender, state) = oneshot::channel();
        self.requests.send(sender).await.ok()?;
        state.await.ok()
    }
}

impl Prompts {
    async fn reason(&mut self, pause: Duration) -> Reason {
        tokio::select! {
            Some(sender) = self.requests.recv() => Reason::Request(sender),
            Some(()) = self.hints.recv() => Reason::Hint,
            () = sleep(pause) => Reason::Poll,
        }
    }

    /// Waits until there was no hint for `quiet`, or a caller asks to read now.
    async fn settle(&mut self, quiet: Duration) -> Reason {
        let latest = Instant::now() + MAX_WAIT;
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
    /// Returns a future that reads definitions until `stop`, and the handle that
    /// asks it to read.
    pub fn follow(self, stop: CancellationToken) -> (impl Future<Output = ()>, Prompt) {
        let (prompt, prompts) = Prompt::new();
        let watch = Watch::new(&self.reader.places, prompt.hints.clone(), self.metrics.clone());
        (self.run(watch, prompts, stop), prompt)
    }

    async fn run(self, watch: Watch, mut prompts: Prompts, stop: CancellationToken) {
        let silence = Silence::of(&self);
        // The first read starts at once. It also finds changes from before the watch.
        let (mut parts, mut reason) = ((self, watch), Reason::Poll);
        loop {
            let since = Instant::now();
            if matches!(reason, Reason::Hint) {
                reason = prompts.settle(parts.0.quiet).await;
            }
            let is_poll = matches!(reason, Reason::Poll);
            let read = spawn_blocking(move || {
                let (mut loader, mut watch) = parts;
                let read = loader.read(&mut watch);
                (loader, watch, read)
            });
            // An error means that the runtime ends: in a release, a panic ends the process.
            let Ok((mut loader, watch, read)) = silence.watch(read).await else { return };
            let accepted = spawn_blocking(move || {
                let state = loader.conclude(read, is_poll, since);
                ((loader, watch), state)
            });
            let Ok((returned, state)) = accepted.await else { return };
            parts = returned;
            let pause = pause(&state);
            if let Reason::Request(waiting) = reason {
                // The caller may have gone.
                let _ = waiting.send(state);
            }
            parts.0.look().await;
            tokio::select! {
                () = stop.cancelled() => return,
                next = prompts.reason(pause) => reason = next,
            }
        }
    }

    /// Reads the places of definitions, which may not answer.
    fn read(&mut self, watch: &mut Watch) -> Result<Snapshot, NoSnapshot> {
        self.watching = watch.renew();
        self.quiet = if self.reader.places.is_volume() { QUIET_VOLUME } else { QUIET };
        self.reader.read()
    }

    /// Looks for the file of the last good definitions, for the next check.
    async fn look(&mut self) {
        if let Some(last_good) = &mut self.last_good {
            last_good.look().await;
        }
    }

    /// Publishes the result of a read that began at `since`.
    fn conclude(
        &mut self,
        read: Result<Snapshot, NoSnapshot>,
        is_poll: bool,
        since: Instant,
    ) -> State {
        let before = self.state.borrow().clone();
        // An error is logged and stored in the state.
        let _ = self.accept(read);
        let state = self.state.borrow().clone();
        if !is_poll || is_changed(&before, &state) {
            self.metrics.reloaded(state.result, since.elapsed());
        }
        state
    }
}

/// Time until the next check.
fn pause(state: &State) -> Duration {
    if state.watching { POLL } else { POLL_UNWATCHED }
}

/// True if a read changed the result of the read before it.
fn is_changed(before: &State, after: &State) -> bool {
    let result = |state: &State| (state.generation, state.kept.is_some(), state.is_good());
    result(before) != result(after) || before.problems != after.problems
}
