//! Errors while accepting connections: no busy loop, and no flood in the log.

use std::{io, time::Duration};

use cmp_sandbox::{Resource, getrlimit};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// Pauses after an error; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time after which an error that lasts is logged again.
const REMINDER: Duration = Duration::from_mins(1);

/// The errors of one listening socket.
#[derive(Debug)]
pub(crate) struct AcceptErrors {
    /// The thing that is accepted, for logs.
    what: &'static str,
    pause: Duration,
    /// Time of the last log line, while errors last.
    logged: Option<Instant>,
}

impl AcceptErrors {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, pause: FIRST_PAUSE, logged: None }
    }

    /// A connection was accepted, so errors have ended.
    pub(crate) fn accepted(&mut self) {
        if self.logged.take().is_some() {
            info!(what = self.what, "connections can be accepted again");
        }
        self.pause = FIRST_PAUSE;
    }

    /// Logs an error, and waits. The waiting clients stay in the kernel's queue.
    pub(crate) async fn pause(&mut self, error: &io::Error) {
        if self.logged.is_none_or(|at| at.elapsed() >= REMINDER) {
            self.logged = Some(Instant::now());
            let remedy = remedy(error);
            warn!(%error, what = self.what, remedy, "cannot accept a connection: clients wait");
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

/// The setting that helps, if descriptors are used up.
fn remedy(error: &io::Error) -> Option<String> {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            let limit = getrlimit(Resource::RLIMIT_NOFILE);
            let limit =
                limit.map_or_else(|_refused| "no more".to_owned(), |(soft, _)| soft.to_string());
            Some(format!(
                "this process may open {limit} files (RLIMIT_NOFILE): raise the hard limit of the \
                 container"
            ))
        }
        Some(Errno::NFILE) => {
            Some("the node's limit of open files is reached: raise fs.file-max".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn errors_that_last_are_retried_ever_more_slowly_up_to_a_limit() {
        let start = Instant::now();
        let mut errors = AcceptErrors::new("a test");
        let full = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        for _ in 0..10 {
            errors.pause(&full).await;
        }
        // 50, 100, 200, 400, 800 ms and five times the longest pause.
        assert_eq!(start.elapsed(), Duration::from_millis(6550));
        errors.accepted();
        assert_eq!((errors.pause, errors.logged), (FIRST_PAUSE, None));
    }

    #[test]
    fn a_process_without_descriptors_is_told_its_limit() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(remedy(&error(Errno::MFILE)).unwrap().contains("RLIMIT_NOFILE"));
        assert!(remedy(&error(Errno::NFILE)).unwrap().contains("fs.file-max"));
        assert_eq!(remedy(&error(Errno::CONNABORTED)), None);
    }
}
