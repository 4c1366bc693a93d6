//! The volume of the work directory, and requests that wait for its space.

mod space;
mod thread;

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cmp_sandbox::LastPart;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use thiserror::Error;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep},
};

pub use self::space::Space;
use self::space::size;
pub(crate) use self::thread::FileThread;
use crate::budget::Budget;

/// Longest wait of a request for space; others that end give theirs back.
const WAIT: Duration = Duration::from_secs(10);

/// Longest wait of a worker that has written a part of its files.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Pause between two looks at the space.
const LOOK: Duration = Duration::from_millis(250);

/// Requests that ask within this time share an answer.
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
    /// Locked by the one request that uses the last space of a volume in memory.
    turn: Option<Arc<OwnedFd>>,
}

/// The turn of a request to use the last space of the volume, once its worker has locked
/// this open file description, until it ends. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LastSpace(pub(crate) Arc<OwnedFd>);

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
        Self { path: directory.into(), thread, budget: None, answer: Arc::default(), turn: None }
    }

    /// The same with no more space than the memory of all requests, if the volume is
    /// in memory.
    #[must_use]
    pub fn within(self, budget: watch::Receiver<Budget>) -> Self {
        Self { budget: Some(budget), turn: lockable().ok().map(Arc::new), ..self }
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

    /// The turn of a new request to use the last part, if the volume is in memory.
    pub(crate) fn turn(&self) -> Option<LastSpace> {
        let file = self.turn.as_ref().filter(|_| self.memory().is_some())?;
        // Without the file, the worker cannot take the turn, and only waits.
        open_again(file).ok().map(|opened| LastSpace(Arc::new(opened)))
    }

    /// Limits of free space for a request that unpacks an archive, if the volume is in
    /// memory.
    ///
    /// The last part of the space is for one request, until it ends: requests that
    /// need more together than there is would otherwise all fail.
    pub(crate) async fn last_part(&self, deadline: Option<std::time::Instant>) -> Option<LastPart> {
        let memory = self.memory()?;
        let space = self.recent().await.unwrap_or(Space::all_of(memory));
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now().into_std()));
        Some(LastPart {
            memory,
            mark: space.last_part(),
            least: space.least(),
            wait_ms: milliseconds(TURN_WAIT),
            left_ms: left.map(milliseconds),
        })
    }

    /// The error of a request that could not use the last part.
    pub(crate) async fn almost_full(&self) -> FullVolume {
        let space = self.space().await.ok();
        let low = space.map_or_else(
            || "the last part is for one request at a time".to_owned(),
            |space| format!("less than {} are free", size(space.last_part())),
        );
        self.low("the archive was not unpacked", &low, TURN_WAIT).await
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

/// A new open file description: a copy of the descriptor would be the same one.
fn open_again(file: &OwnedFd) -> io::Result<OwnedFd> {
    // Without separate UIDs, an archive that takes over its worker can change the mode.
    fchmod(file, Mode::RUSR)?;
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

/// A file that can be locked and not changed.
fn lockable() -> io::Result<OwnedFd> {
    let file = memfd_create("turn", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fcntl_add_seals(
        &file,
        SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok(file)
}

/// The user's options.
const REMEDY: &str = "raise the volume's size (in memory also the container's memory limit), or \
                      lower --max-disk, --max-files or --max-requests";

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{FlockOperation, flock, fstat};

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

    fn in_memory(is_so: bool) -> WorkVolume {
        let budget = Budget { in_memory: is_so, ..Budget::default() };
        WorkVolume::new("/".into()).within(watch::channel(budget).1)
    }

    #[test]
    fn one_request_at_a_time_has_the_turn() {
        let volume = in_memory(true);
        let take = |LastSpace(turn): &LastSpace| {
            flock(turn.as_ref(), FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        let [first, second] = [(); 2].map(|()| volume.turn().unwrap());
        let workers = first.0.try_clone().unwrap();
        assert!(take(&first) && !take(&second));
        drop(first);
        assert!(!take(&second), "the worker of the first request still has it");
        drop(workers);
        assert!(take(&second));
        assert!(in_memory(false).turn().is_none());
    }

    #[test]
    fn a_worker_cannot_spoil_the_file_of_the_turn() {
        let volume = in_memory(true);
        let LastSpace(turn) = volume.turn().unwrap();
        // It can do this only if it has the supervisor's UID.
        fchmod(&turn, Mode::RWXU).unwrap();
        let path = format!("/proc/self/fd/{}", turn.as_raw_fd());
        let opened = File::options().write(true).open(path);
        assert!(opened.and_then(|mut file| file.write(b"x")).is_err());
        fchmod(&turn, Mode::empty()).unwrap();
        let LastSpace(next) = volume.turn().unwrap();
        assert_eq!(Mode::from_raw_mode(fstat(&next).unwrap().st_mode), Mode::RUSR);
    }

    #[tokio::test]
    async fn a_request_without_a_deadline_waits_for_the_turn_as_well() {
        let volume = in_memory(true);
        let last_part = volume.last_part(None).await.unwrap();
        assert_eq!((last_part.wait_ms, last_part.left_ms), (30_000, None));
        let last_part = volume.last_part(Some(std::time::Instant::now())).await.unwrap();
        assert_eq!(last_part.left_ms, Some(0));
        assert_eq!(in_memory(false).last_part(None).await, None);
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
