//! The volume of the work directory, and requests that wait for its space.

mod memory;
mod space;
mod thread;
mod turn;

use std::{
    future, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cmp_sandbox::{AlmostFull, LastPart, Marks, is_noexec};
use thiserror::Error;
use tokio::{
    sync::{Mutex, OnceCell, watch},
    time::{Instant, sleep, timeout},
};

#[cfg(test)]
pub(crate) use self::space::SPACE;
pub(crate) use self::{
    memory::sealable,
    space::Space,
    thread::{ANSWER, FileThread, silent},
    turn::NoTurn,
};
use self::{space::size, turn::TurnFile};
use crate::budget::Budget;

/// Longest wait of a request for space; others that end give theirs back.
const WAIT: Duration = Duration::from_secs(10);

/// Longest wait of a worker that has written a part of its files.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Pause between two looks at the space.
const LOOK: Duration = Duration::from_millis(250);

/// Longest look for the error of a request, whose answer must not be late. It usually takes
/// microseconds.
const GLANCE: Duration = Duration::from_millis(250);

/// Requests that ask within this time share an answer.
const FRESH: Duration = Duration::from_millis(100);

/// The warning about a work directory from which requests cannot start programs.
pub(crate) fn noexec(directory: &Path) -> Option<String> {
    is_noexec(directory).then(|| {
        format!(
            "{} is mounted with the option noexec: requests cannot start files of their repository, or \
             programs that they put into HOME",
            directory.display()
        )
    })
}

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
    /// Locked by the one request that uses the last space of a volume in memory. Created
    /// for the first one.
    turn: Arc<OnceCell<TurnFile>>,
}

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
        Self {
            path: directory.into(),
            thread,
            budget: None,
            answer: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// Limits the space to the memory of all requests, if the volume is in memory.
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

    /// The space as of a moment ago. Many requests at a time ask only once, even if
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

    /// The last part for a new request that unpacks an archive, if the volume is in memory.
    ///
    /// It is for one request at a time, until that one ends: requests that need more
    /// together than there is would otherwise all fail.
    pub(crate) async fn last_part(
        &self,
        deadline: Option<std::time::Instant>,
    ) -> Result<Option<LastPart>, NoTurn> {
        let Some(memory) = self.memory() else { return Ok(None) };
        let file = self.turn.get_or_try_init(|| future::ready(TurnFile::create())).await?;
        let turn = Arc::new(file.open()?);
        Ok(Some(LastPart { marks: self.marks(memory, deadline).await, turn }))
    }

    async fn marks(&self, memory: u64, deadline: Option<std::time::Instant>) -> Marks {
        let space = self.recent().await.unwrap_or(Space::all_of(memory));
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now().into_std()));
        Marks {
            memory,
            mark: space.last_part(),
            least: space.least(),
            wait_ms: milliseconds(TURN_WAIT),
            left_ms: left.map(milliseconds),
        }
    }

    /// The error of a request that could not use the last part, or has used it up.
    pub(crate) async fn almost_full(&self, reason: AlmostFull) -> FullVolume {
        if let Some(written) = reason.used_up {
            return FullVolume(format!(
                "{NOT_UNPACKED}, because the work volume {} has no space for the rest of it: this \
                 request had the turn to use the last space, and its files take up to {}: {}: \
                 {ENLARGE}, or unpack less with spec.workspace.include",
                self.path.display(),
                size(written),
                self.say().await,
            ));
        }
        let space = self.space().await.ok();
        let low = space.map_or_else(
            || "the last part is for one request at a time".to_owned(),
            |space| format!("less than {} are free", size(space.last_part())),
        );
        self.low(NOT_UNPACKED, &low, TURN_WAIT).await
    }

    /// `wait` is the longest time for others to give space back.
    async fn low(&self, failure: &str, low: &str, wait: Duration) -> FullVolume {
        FullVolume(format!(
            "{failure}, because the work volume {} is almost full: {low}, and a \
             request waits at most {} s for space: {}: {ENLARGE}, or {LOWER}",
            self.path.display(),
            wait.as_secs(),
            self.say().await,
        ))
    }

    /// The error of a request that ran out of space.
    #[must_use]
    pub async fn full(&self, cause: &str) -> FullVolume {
        FullVolume(format!("{cause}: {}", self.is_full(&self.say().await)))
    }

    /// The sentence about a volume that is full now, or else one about its free space. A
    /// request is answered without it if the volume is not.
    pub(crate) async fn found_full(&self) -> Result<String, String> {
        let path = self.path.display();
        match timeout(GLANCE, self.space()).await {
            Ok(Ok(space)) if space.low().is_some() => Ok(self.is_full(&space.say())),
            Ok(Ok(space)) => Err(format!("the work volume {path} has {}", space.say())),
            Ok(Err(error)) => Err(format!("the work volume {path} cannot be read: {error}")),
            Err(_elapsed) => Err(format!("the work volume {path} does not answer")),
        }
    }

    fn is_full(&self, space: &str) -> String {
        let path = self.path.display();
        format!("the work volume {path} is full: {space}: {ENLARGE}, or {LOWER}")
    }

    async fn say(&self) -> String {
        self.space().await.map_or_else(|error| error.to_string(), Space::say)
    }
}

/// Beginning of errors.
const NOT_UNPACKED: &str = "the archive was not unpacked";

/// The user's options.
pub(crate) const ENLARGE: &str =
    "raise the volume's size (in memory also the container's memory limit)";
pub(crate) const LOWER: &str = "lower --max-disk, --max-files or --max-requests";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_shared_for_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        // On a busy machine, an answer of now may be old at the next line.
        *volume.answer.lock().await = Some(Answer { at: Instant::now() + WAIT, space: None });
        assert_eq!(volume.clone().recent().await, None, "another request got no answer");
        *volume.answer.lock().await = Some(Answer { at: Instant::now() - FRESH, space: None });
        assert!(volume.recent().await.is_some());
    }

    fn in_memory(is_so: bool) -> WorkVolume {
        let budget = Budget { in_memory: is_so, ..Budget::default() };
        WorkVolume::new("/".into()).within(watch::channel(budget).1)
    }

    #[tokio::test]
    async fn a_request_without_a_deadline_waits_for_the_turn_as_well() {
        let volume = in_memory(true);
        let marks = async |volume: &WorkVolume, deadline| {
            Some(volume.last_part(deadline).await.unwrap()?.marks)
        };
        let waits = marks(&volume, None).await.unwrap();
        assert_eq!((waits.wait_ms, waits.left_ms), (30_000, None));
        let late = marks(&volume, Some(std::time::Instant::now())).await.unwrap();
        assert_eq!(late.left_ms, Some(0));
        assert_eq!(marks(&in_memory(false), None).await, None);
    }

    #[tokio::test]
    async fn a_volume_with_space_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        let space = volume.space().await.unwrap();
        assert!(space.bytes > 0 && space.free_bytes <= space.bytes, "{space:?}");
        volume.wait("nothing", Some(std::time::Instant::now())).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_space_until_its_deadline() {
        let volume = WorkVolume::new("/".into());
        let full = Some(Space { free_bytes: 0, ..Space::all_of(1 << 30) });
        let began = Instant::now();
        *volume.answer.lock().await = Some(Answer { at: began + 2 * WAIT, space: full });
        let deadline = WAIT / 2;
        assert!(volume.wait("x", Some((began + deadline).into_std())).await.is_err());
        assert!(began.elapsed() <= deadline);
        assert!(volume.wait("x", None).await.is_err());
    }

    #[tokio::test]
    async fn the_error_of_a_full_volume_has_its_path_and_numbers() {
        let volume = WorkVolume::new("/".into());
        let text = volume.full("mkdir: no space left on device").await.to_string();
        assert!(text.starts_with("mkdir: no space left on device: the work volume / is full: "));
        assert!(text.contains(" free") && text.ends_with(LOWER), "{text}");
    }

    #[tokio::test]
    async fn a_request_that_fills_the_volume_alone_is_not_told_to_wait() {
        let volume = WorkVolume::new("/".into());
        let text = volume.almost_full(AlmostFull { used_up: Some(57 << 20) }).await.to_string();
        assert!(
            text.contains("its files take up to 57 MiB: ") && !text.contains("waits"),
            "{text}"
        );
        assert!(!text.contains("--max-requests"), "{text}");
        let text = volume.almost_full(AlmostFull { used_up: None }).await.to_string();
        assert!(text.contains("a request waits at most 30 s for space"), "{text}");
    }
}
