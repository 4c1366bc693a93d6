//! Answers that their clients do not read.
//!
//! An answer takes memory that all requests share until it is sent. Its body is not polled
//! while the client reads nothing, so the task that serves the stream watches it.

use std::{
    cell::Cell,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    task_local,
    time::{Instant, sleep_until},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::task_tracker::TaskTrackerToken,
};
use tracing::warn;

use super::warning_pause::WarningPause;
use crate::plugin::PluginName;

/// Time after the client's deadline in which its answer may still be read. Argo CD's client
/// has given up at its deadline, but its clock started a moment earlier or later.
const MARGIN: Duration = Duration::from_secs(1);

task_local! {
    /// The answer of the stream that a task serves.
    static ANSWER: Answer;
}

/// An answer that may not have begun yet.
struct Answer {
    /// Dropped with the last piece of the answer.
    unsent: Arc<DropGuard>,
    begin: Cell<Option<oneshot::Sender<Watch>>>,
}

/// An answer that is watched until it is sent.
struct Watch {
    reader: Reader,
    progress: Progress,
    /// Held: a shutdown would close the connection before.
    _token: TaskTrackerToken,
}

/// Number of pieces that were taken for the client. Clones are of the same answer.
#[derive(Clone, Debug, Default)]
struct Progress(Arc<AtomicUsize>);

/// The client that an answer is for. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    plugin: PluginName,
    /// Longest time without a further piece.
    silence: Duration,
    /// The time at which the answer is of no use.
    until: Option<Instant>,
    /// The last warning about a client of the plugin.
    warning_pause: WarningPause,
}

/// Hands out the pieces of an answer.
pub(super) struct Pieces {
    unsent: Arc<DropGuard>,
    progress: Progress,
}

/// A piece of an answer.
struct Piece {
    bytes: Bytes,
    /// Held until the piece is sent.
    _unsent: Arc<DropGuard>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pieces {
    /// Copies a piece: the connection may keep it for as long as the client likes, and must
    /// not keep the rest of the answer with it.
    pub(super) fn take(&self, bytes: &[u8]) -> Bytes {
        self.progress.0.fetch_add(1, Ordering::Relaxed);
        let bytes = Bytes::copy_from_slice(bytes);
        Bytes::from_owner(Piece { bytes, _unsent: Arc::clone(&self.unsent) })
    }
}

impl Reader {
    /// A client of the plugin that may take `silence` for each piece.
    pub(super) fn new(plugin: &PluginName, silence: Duration) -> Self {
        let warning_pause = WarningPause::default();
        Self { plugin: plugin.clone(), silence, until: None, warning_pause }
    }

    /// The client of a call that begins now and may take the `granted` time.
    pub(super) fn granted(&self, granted: Option<Duration>) -> Self {
        let until =
            granted.and_then(|granted| Instant::now().checked_add(granted)?.checked_add(MARGIN));
        Self { until, ..self.clone() }
    }

    /// Watches the answer of this task's stream from now on. It holds `token` until it is sent.
    pub(super) fn begin(self, token: TaskTrackerToken) -> Option<Pieces> {
        let progress = Progress::default();
        let begin = |answer: &Answer| {
            let watch = Watch { reader: self, progress: progress.clone(), _token: token };
            // It fails if the task ends.
            let _ = answer.begin.take()?.send(watch);
            Some(Pieces { unsent: Arc::clone(&answer.unsent), progress })
        };
        ANSWER.try_with(begin).ok().flatten()
    }

    fn warn(&self) {
        if self.warning_pause.is_over() {
            warn!(
                plugin = self.plugin.as_str(),
                stream_timeout = ?self.silence,
                "an answer was dropped, because its client had not read it 1 s after its deadline, \
                 or had read less than 64Ki of it in --stream-timeout: look at the CPU time \
                 of the repo-server"
            );
        }
    }
}

impl Watch {
    /// Waits until the client has had its time.
    async fn is_late(&self) {
        let Reader { silence, until, .. } = &self.reader;
        loop {
            let taken = self.progress.0.load(Ordering::Relaxed);
            let silent = Instant::now() + *silence;
            sleep_until(until.map_or(silent, |until| until.min(silent))).await;
            let is_over = until.is_some_and(|until| until <= Instant::now());
            if is_over || taken == self.progress.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Serves a stream until its answer is sent. If its client does not read it, it is dropped
/// with its memory, and h2 resets the stream.
pub(super) async fn serve(stream: impl Future) {
    let sent = CancellationToken::new();
    let (begin, watch) = oneshot::channel::<Watch>();
    let unsent = Arc::new(sent.clone().drop_guard());
    let answer = Answer { unsent, begin: Cell::new(Some(begin)) };
    let all = async {
        ANSWER.scope(answer, stream).await;
        sent.cancelled().await;
    };
    let unread = async {
        // Without an answer, there is nothing to watch.
        let Ok(watch) = watch.await else { return pending().await };
        watch.is_late().await;
        watch.reader.warn();
    };
    tokio::select! {
        biased;
        () = all => {}
        () = unread => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use tokio_util::task::TaskTracker;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(30);

    /// Serves the answer of a client that takes a piece in every `pause` and sends none of
    /// them. Returns the time until the answer is dropped, with its token.
    async fn drops(granted: Option<Duration>, pause: Duration) -> Duration {
        let answers = TaskTracker::new();
        let (began, token) = (Instant::now(), answers.token());
        let reader = Reader::new(&PluginName::new("p", "").unwrap(), SILENCE).granted(granted);
        serve(async move {
            let pieces = reader.begin(token).unwrap();
            loop {
                tokio::time::sleep(pause).await;
                let _ = pieces.take(b"piece");
            }
        })
        .await;
        assert!(answers.is_empty());
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_dropped_after_the_clients_deadline() {
        let took = drops(Some(Duration::from_secs(90)), Duration::from_secs(20)).await;
        assert_eq!(took, Duration::from_secs(90) + MARGIN);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_dropped_if_its_client_reads_nothing() {
        for granted in [None, Some(Duration::MAX), Some(Duration::from_hours(1))] {
            assert_eq!(drops(granted, Duration::from_hours(2)).await, SILENCE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_without_a_deadline_may_take_as_long_as_it_needs() {
        let hours = timeout(Duration::from_hours(5), drops(None, Duration::from_secs(29))).await;
        assert!(hours.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_piece_counts_until_it_is_sent() {
        let answers = TaskTracker::new();
        let (token, (keep, kept)) = (answers.token(), oneshot::channel());
        let reader = Reader::new(&PluginName::new("p", "").unwrap(), SILENCE);
        let serving = serve(async move {
            let _ = keep.send(reader.begin(token).unwrap().take(b"piece"));
        });
        let sending = async {
            let piece: Bytes = kept.await.unwrap();
            assert_eq!(answers.len(), 1);
            drop(piece);
        };
        tokio::join!(serving, sending);
        assert!(answers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_an_answer_is_not_watched() {
        serve(tokio::time::sleep(Duration::from_hours(5))).await;
    }
}
