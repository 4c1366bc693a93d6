//! Work in proportion to a tenant's data, away from the threads that serve
//! connections.

use std::{
    future::pending, panic::resume_unwind, sync::Arc, thread::available_parallelism, time::Instant,
};

use tokio::{
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::deadline::{Deadline, DeadlinePassed};

/// Most threads for each kind of work, however many processors there are.
const MAX_EACH: usize = 4;

/// Kinds of work that have threads: outputs and names, each of them short and long.
const KINDS: usize = 4;

/// Largest input of a short piece of work in bytes. It takes about 10 ms.
const SHORT: usize = 1 << 20;

/// A bounded number of threads for work that does not wait. Cheap to clone.
///
/// Short work has threads of its own: it never waits for long work.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// Work that has a thread. Dropping it tells the work to stop.
#[derive(Debug)]
pub(super) struct Running<T> {
    task: JoinHandle<T>,
    deadline: Deadline,
    _abandon: DropGuard,
}

/// Tells running work when to stop: at the deadline, or when nobody waits for its
/// result any more.
#[derive(Debug)]
pub(super) struct Stop {
    abandoned: CancellationToken,
    at: Option<Instant>,
}

/// The number of threads that all kinds of work can have together.
#[must_use]
pub fn most_threads() -> usize {
    KINDS * each()
}

/// The number of threads that each kind of work can have.
fn each() -> usize {
    available_parallelism().map_or(1, usize::from).min(MAX_EACH)
}

impl Stop {
    /// True if the work has to stop.
    pub(super) fn is_due(&self) -> bool {
        self.abandoned.is_cancelled() || self.at.is_some_and(|at| at <= Instant::now())
    }
}

impl Threads {
    /// One thread for each processor, up to a limit, for short work, and as many for
    /// long work.
    #[must_use]
    pub(super) fn of_processors() -> Self {
        Self::new(each())
    }

    /// At most `each` threads for short work, and as many for long work.
    #[must_use]
    pub(super) fn new(each: usize) -> Self {
        Self { short: Arc::new(Semaphore::new(each)), long: Arc::new(Semaphore::new(each)) }
    }

    /// Does `work`, whose input has `bytes`, and returns its result. See
    /// [`Threads::start`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: &Deadline,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<T, DeadlinePassed> {
        self.start(bytes, deadline, work).await?.result().await
    }

    /// Waits for a thread and starts `work`, whose input has `bytes`.
    ///
    /// Work that goes on after the deadline, or after its [`Running`] is dropped,
    /// keeps its thread until it asks [`Stop`].
    pub(super) async fn start<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: &Deadline,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<Running<T>, DeadlinePassed> {
        let place = deadline.limit(Arc::clone(self.lane(bytes)).acquire_owned()).await?;
        Ok(Running::new(place, deadline, work))
    }

    /// Starts `work` if two threads are free, for this and for other work beside it.
    pub(super) fn start_second<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: &Deadline,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Option<Running<T>> {
        let lane = self.lane(bytes);
        let is_second = lane.available_permits() > 1;
        let place = Arc::clone(lane).try_acquire_owned().ok().filter(|_| is_second)?;
        Some(Running::new(place, deadline, work))
    }

    fn lane(&self, bytes: usize) -> &Arc<Semaphore> {
        if bytes <= SHORT { &self.short } else { &self.long }
    }
}

impl<T: Send + 'static> Running<T> {
    /// Starts work, which keeps its place until it ends.
    fn new(
        place: impl Send + 'static,
        deadline: &Deadline,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Self {
        let abandoned = CancellationToken::new();
        let abandon = abandoned.clone().drop_guard();
        let stop = Stop { abandoned, at: deadline.instant() };
        let task = spawn_blocking(move || {
            let _place = place;
            work(&stop)
        });
        Self { task, deadline: *deadline, _abandon: abandon }
    }
}

impl<T> Running<T> {
    /// Waits for the result. The future can be dropped and the method called again.
    pub(super) async fn result(&mut self) -> Result<T, DeadlinePassed> {
        match self.deadline.limit(&mut self.task).await? {
            Ok(result) => Ok(result),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The supervisor is ending, and this future will be dropped.
            Err(_) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[tokio::test]
    async fn short_work_does_not_wait_for_long_work() {
        let (threads, none) = (Threads::new(1), Deadline::none());
        let (finish, finished) = mpsc::channel::<()>();
        let long = threads.run(SHORT + 1, &none, move |_| finished.recv().is_err());
        let short = async {
            let short = threads.run(SHORT, &none, |_| 7).await;
            drop(finish);
            short
        };
        let (long, short) = tokio::join!(long, short);
        assert_eq!((long.unwrap(), short.unwrap()), (true, 7));
    }

    #[tokio::test]
    async fn work_and_the_wait_for_a_thread_end_at_the_deadline() {
        let (threads, none) = (Threads::new(1), Deadline::none());
        let deadline = Deadline::new(None, Some(Duration::from_millis(50)));
        let (tell, told) = mpsc::channel();
        let endless = move |stop: &Stop| {
            while !stop.is_due() {}
            tell.send(()).unwrap();
        };
        // It may end just before the wait for it does.
        let _ = threads.run(1, &deadline, endless).await;
        told.recv_timeout(Duration::from_mins(1)).unwrap();
        let (finish, finished) = mpsc::channel::<()>();
        let first = threads.run(1, &none, move |_| finished.recv().is_err());
        let second = async {
            let deadline = Deadline::new(None, Some(Duration::from_millis(50)));
            let second = threads.run(1, &deadline, |_| ()).await;
            drop(finish);
            second
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok() && second.is_err());
    }

    #[tokio::test]
    async fn work_stops_when_nobody_waits_for_it() {
        let (threads, none) = (Threads::new(1), Deadline::none());
        let (tell, told) = mpsc::channel();
        let endless = move |stop: &Stop| {
            tell.send("begun").unwrap();
            while !stop.is_due() {}
            tell.send("ended").unwrap();
        };
        let begun = async {
            while told.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = threads.run(1, &none, endless) => unreachable!("it has no end"),
            () = begun => {}
        }
        assert_eq!(told.recv_timeout(Duration::from_mins(1)), Ok("ended"));
    }
}
