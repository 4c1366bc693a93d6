//! Notices a client that stops sending.

use std::{pin::pin, task::Poll, time::Duration};

use tokio::time::{Instant, timeout};

use crate::{
    ready::poll_once,
    request::{BrokenStream, STALL_BYTES},
};

/// The time that a client has left to send its next bytes.
///
/// Only time in which we wait for the client counts: a client cannot send while
/// nobody reads.
#[derive(Debug)]
pub(super) struct Pace {
    limit: Duration,
    left: Duration,
    received: u64,
}

impl Pace {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, left: limit, received: 0 }
    }

    /// Waits for the client.
    pub(super) async fn wait<F: Future>(&mut self, next: F) -> Result<F::Output, BrokenStream> {
        let mut next = pin!(next);
        if let Poll::Ready(next) = poll_once(next.as_mut()).await {
            return Ok(next);
        }
        let began = Instant::now();
        let result = timeout(self.left, next).await;
        self.left = self.left.saturating_sub(began.elapsed());
        result.map_err(|_elapsed| BrokenStream::Stalled { limit: self.limit })
    }

    /// Counts what the client sent. After enough bytes, it has the full time again.
    pub(super) fn count(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
        if self.received >= STALL_BYTES {
            *self = Self::new(self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_stopped() {
        let mut pace = Pace::new(LIMIT);
        pace.count(1000);
        let stalled = pace.wait(std::future::pending::<()>()).await;
        assert_eq!(stalled, Err(BrokenStream::Stalled { limit: LIMIT }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_trickles_is_stopped() {
        let mut pace = Pace::new(LIMIT);
        let mut seconds = 0;
        while pace.wait(sleep(SECOND)).await.is_ok() {
            pace.count(1);
            seconds += 1;
        }
        assert!(seconds <= LIMIT.as_secs(), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_may_take_as_long_as_it_needs() {
        let mut pace = Pace::new(LIMIT);
        for _ in 0..100 {
            pace.wait(sleep(29 * SECOND)).await.unwrap();
            pace.count(64 << 10);
            // Nobody reads for a while.
            sleep(60 * SECOND).await;
        }
    }
}
