//! The volume of the work directory, and requests that wait for its space.

mod space;
mod thread;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep},
};

pub use self::space::Space;
use self::space::size;
pub(crate) use self::thread::FileThread;
use crate::budget::Budget;

/// Longest wait of a request for space; others that end give theirs back.
const WAIT: Duration = Duration::from_secs(10);

/// Longest wait of a request that has written a part of its files.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Pause between two looks at the space.
const LOOK: Duration = Duration::from_millis(250);

/// Requests that ask within this time share an answer. Those that write do so only while
/// there is twice the last part, because they write hundreds of MiB in a second.
const FRESH: Duration = Duration::from_millis(100);

/// The volume of the work directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkVolume {
    path: Arc<Path>,
    thread: FileThread,
    /// Tells how much of the container's memory files may be; `None` if the volume
    /// alone limits them.
    budget: Option<watch::Receiver<Budget>>,
    /// The last answer to a request. The lock is held while one is asked for.
    answer: Arc<Mutex<Option<Answer>>>,
    /// For the one request that uses the last space.
    turn: Arc<Semaphore>,
}

/// The turn of a request to use the last space of the volume, until it ends.
#[derive(Debug)]
pub(crate) struct LastSpace(
    #[expect(dead_code, reason = "kept until the end")] OwnedSemaphorePermit,
);

/// An answer that requests share.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    /// `None` if the volume did not answer.
    space: Option<Space>,
}

/// The work volume has no space for a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct FullVolume(String);

impl WorkVolume {
    /// The volume of a directory.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let thread = FileThread::new();
        let turn = Arc::new(Semaphore::new(1));
        Self { path: directory.into(), thread, budget: None, answer: Arc::default(), turn }
    }

    /// The same with no more space than the memory of all requests, if the volume is
    /// in memory.
    #[must_use]
    pub fn within(self, budget: watch::Receiver<Budget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads its space. A volume that does not answer is an error.
    pub async fn space(&self) -> io::Result<Space> {
        let path = Arc::clone(&self.path);
        let space = self.ask(move || Space::read(&path)).await??;
        Ok(self.memory().map_or(space, |memory| space.within(memory)))
    }

    /// Bytes of memory of all requests, if files are in memory.
    fn memory(&self) -> Option<u64> {
        let budget = self.budget.as_ref()?.borrow();
        budget.in_memory.then_some(budget.memory.amount)
    }

    /// The space as of a moment ago. Many requests at a time ask only once, also if
    /// the volume does not answer.
    async fn recent(&self) -> Option<Space> {
        let mut answer = self.answer.lock().await;
        if let Some(Answer { at, space }) = *answer
            && at.elapsed() < FRESH
        {
            return space;
        }
        let space = self.space().await.ok();
        *answer = Some(Answer { at: Instant::now(), space });
        space
    }

    /// The space as of a moment ago, or as of now if it may soon be the last part.
    async fn while_writing(&self) -> Option<Space> {
        let recent = self.recent().await?;
        let is_near = recent.free_bytes < 2 * recent.last_part();
        if is_near { self.space().await.ok() } else { Some(recent) }
    }

    /// True if requests may need space that is only kept for speed.
    pub(crate) async fn is_tight(&self) -> bool {
        self.recent().await.is_some_and(Space::is_tight)
    }

    /// Does work with files of the volume, which may not answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.thread.run(work).await
    }

    /// Waits until the volume is above its low-water marks, or `deadline`. The error
    /// begins with `failure`. A volume that cannot be read has no marks: the sandbox
    /// reports its error.
    pub async fn wait(
        &self,
        failure: &str,
        deadline: Option<std::time::Instant>,
    ) -> Result<(), FullVolume> {
        let latest = Instant::now() + WAIT;
        let latest = deadline.map_or(latest, |deadline| latest.min(deadline.into()));
        loop {
            let Some(low) = self.recent().await.and_then(Space::low) else { return Ok(()) };
            if Instant::now() + LOOK >= latest {
                return Err(self.low(failure, &low, WAIT).await);
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until a request that writes its files may go on, if they are in memory.
    ///
    /// The last part of the space is for one request, until it ends: requests that
    /// need more together than there is would otherwise all fail.
    pub(crate) async fn go_on(
        &self,
        turn: &mut Option<LastSpace>,
        deadline: Option<std::time::Instant>,
    ) -> Result<(), FullVolume> {
        let Some(memory) = self.memory() else { return Ok(()) };
        let latest = Instant::now() + TURN_WAIT;
        let latest = deadline.map_or(latest, |deadline| latest.min(deadline.into()));
        loop {
            let space = self.while_writing().await.unwrap_or(Space::all_of(memory));
            let free = space.free_bytes;
            if free >= space.last_part() {
                return Ok(());
            }
            if free > 0 && turn.is_none() {
                *turn = Arc::clone(&self.turn).try_acquire_owned().ok().map(LastSpace);
            }
            if free > 0 && turn.is_some() {
                return Ok(());
            }
            if free == 0 && turn.is_some() || Instant::now() + LOOK >= latest {
                let low = format!("less than {} are free", size(space.last_part()));
                return Err(self.low("the archive was not unpacked", &low, TURN_WAIT).await);
            }
            sleep(LOOK).await;
        }
    }

    /// `wait` is the longest time for others to give space back.
    async fn low(&self, failure: &str, low: &str, wait: Duration) -> FullVolume {
        FullVolume(format!(
            "{failure}, because the work volume {} is almost full: {low}, and a \
             request waits at most {} s for space: {}: {REMEDY}",
            self.path.display(),
            wait.as_secs(),
            self.say().await,
        ))
    }

    /// The error of a request that ran out of space.
    #[must_use]
    pub async fn full(&self, cause: &str) -> FullVolume {
        FullVolume(format!(
            "{cause}: the work volume {} is full: {}: {REMEDY}",
            self.path.display(),
            self.say().await
        ))
    }

    async fn say(&self) -> String {
        self.space().await.map_or_else(|error| error.to_string(), Space::say)
    }
}

/// The user's options.
const REMEDY: &str = "raise the volume's size (in memory also the container's memory limit), or \
                      lower --max-disk, --max-files or --max-requests";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_shared_for_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        *volume.answer.lock().await = Some(Answer { at: Instant::now(), space: None });
        assert_eq!(volume.clone().recent().await, None, "another request got no answer");
        *volume.answer.lock().await = Some(Answer { at: Instant::now() - FRESH, space: None });
        assert!(volume.recent().await.is_some());
    }

    #[tokio::test]
    async fn a_volume_with_space_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        let space = volume.space().await.unwrap();
        assert!(space.bytes > 0 && space.free_bytes <= space.bytes, "{space:?}");
        volume.wait("nothing", Some(std::time::Instant::now())).await.unwrap();
    }

    #[tokio::test]
    async fn the_error_of_a_full_volume_has_its_path_and_numbers() {
        let volume = WorkVolume::new("/".into());
        let text = volume.full("mkdir: no space left on device").await.to_string();
        assert!(text.starts_with("mkdir: no space left on device: the work volume / is full: "));
        assert!(text.contains(" free") && text.ends_with(REMEDY), "{text}");
    }
}
