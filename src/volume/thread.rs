//! A thread for files that may not answer, for example on a network volume.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

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
        let done = async {
            let turn = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let task = spawn_blocking(move || {
                let _turn = turn;
                work()
            });
            task.await.map_err(io::Error::other)
        };
        timeout(ANSWER, done).await.unwrap_or_else(|_elapsed| Err(silent()))
    }
}

fn silent() -> io::Error {
    let text = format!("no answer within {} s: is its storage reachable?", ANSWER.as_secs());
    io::Error::new(ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

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
