//! A thread for files that may not answer, for example on a network volume.

use std::{
    future::pending,
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

/// Longest wait for an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Does one piece of work at a time. Work that never ends keeps its thread, and
/// nothing more: later work then fails. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FileThread(Arc<Semaphore>);

impl FileThread {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Does work. The error says after which time there was no result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.run_after(ANSWER, work).await
    }

    /// Does work, but only if its turn comes within `wait`. The error says after which time
    /// there was no result.
    pub(crate) async fn run_after<T: Send + 'static>(
        &self,
        wait: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let done = async {
            let turn = timeout(wait, Arc::clone(&self.0).acquire_owned()).await;
            let turn = turn.map_err(|_elapsed| silent(wait))?.map_err(io::Error::other)?;
            let task = spawn_blocking(move || {
                let _turn = turn;
                work()
            });
            result(task).await
        };
        timeout(ANSWER, done).await.unwrap_or_else(|_elapsed| Err(silent(ANSWER)))
    }
}

/// The result of the work. A runtime that ends cancels work that has not begun; this is no
/// error of the files, and nobody waits for the result any more.
async fn result<T>(task: JoinHandle<T>) -> io::Result<T> {
    match task.await {
        Err(error) if error.is_cancelled() => pending().await,
        ended => ended.map_err(io::Error::other),
    }
}

/// The error of files that do not answer in time.
pub(crate) fn silent(wait: Duration) -> io::Error {
    let text = format!("no answer within {} s: is its storage reachable?", wait.as_secs_f32());
    io::Error::new(ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_the_end_of_the_runtime_cancels_is_no_error_of_its_files() {
        let task = tokio_util::task::TaskTracker::new().spawn(pending::<()>());
        task.abort();
        assert!(timeout(ANSWER, result(task)).await.is_err());
    }

    #[tokio::test]
    async fn work_that_hangs_is_named_and_holds_up_nobody_for_longer() {
        tokio::time::pause();
        let files = FileThread::new();
        let (end, ended) = mpsc::channel::<()>();
        let hanging = files.run(move || ended.recv());
        let error = |result: io::Result<()>| result.unwrap_err().to_string();
        let late = async {
            tokio::task::yield_now().await;
            tokio::time::advance(2 * ANSWER).await;
        };
        let (hung, ()) = tokio::join!(hanging, late);
        assert!(error(hung.map(drop)).starts_with("no answer within 5 s"));
        let late = async {
            tokio::task::yield_now().await;
            tokio::time::advance(2 * ANSWER).await;
        };
        let (waited, ()) = tokio::join!(files.run(|| ()), late);
        assert!(error(waited).starts_with("no answer within 5 s"));
        drop(end);
        tokio::time::resume();
        files.run(|| ()).await.unwrap();
    }
}
