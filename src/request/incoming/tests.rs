use std::{future::pending, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::*;
use crate::{
    plugin::definition_of,
    request::{Deadline, Progress},
};

const LIMITS: ArchiveLimits = ArchiveLimits {
    archive: 1 << 20,
    unpacked: UnpackLimits { bytes: 1, files: 1, is_volume: false },
};

/// A client that sends one chunk.
struct OneChunk(Option<Bytes>);

impl ChunkStream for OneChunk {
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenStream> {
        Ok(self.0.take())
    }
}

/// A worker that reads nothing.
struct Stuck;

impl PieceSink for Stuck {
    async fn take(&mut self, _piece: &[u8]) -> bool {
        pending().await
    }
}

fn incoming(header: RequestHeader, chunks: &mut OneChunk) -> Incoming<'_, OneChunk> {
    Incoming::new(header, chunks, Fingerprints::default(), LIMITS)
}

fn context() -> RequestContext {
    let plugin = Arc::new(definition_of("p", ""));
    RequestContext {
        newest: watch::channel(Arc::clone(&plugin)).1,
        plugin,
        redactor: Arc::default(),
        deadline: Deadline::new(Some(Duration::from_secs(2)), None),
        progress: Progress::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn work_on_a_kept_archive_counts_only_if_the_archive_is_right() {
    let right =
        Bytes::from_static(b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let pause = Duration::from_millis(10);
    for (checksum, is_right) in [(right, true), (Bytes::from_static(b"other"), false)] {
        for work in [Duration::ZERO, pause] {
            let header = RequestHeader { checksum: checksum.clone(), ..Default::default() };
            let mut chunks = OneChunk(None);
            let mut incoming = incoming(header, &mut chunks);
            let work = async {
                tokio::time::sleep(work).await;
                Ok(7)
            };
            let done = incoming.verify_while(work, &mut context()).await;
            match done {
                Ok(done) => assert!(is_right && done == 7),
                Err(error) => assert!(!is_right && matches!(error, ReceiveError::Checksum)),
            }
        }
    }
}

/// A client that takes its time.
struct Slow;

impl ChunkStream for Slow {
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenStream> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_before_the_archive_has_arrived_waits_for_its_checksum() {
    let mut client = Slow;
    let header = RequestHeader { checksum: "other".into(), ..Default::default() };
    let mut incoming = Incoming::new(header, &mut client, Fingerprints::default(), LIMITS);
    let done = incoming.verify_while(async { Ok(7) }, &mut context()).await;
    assert!(matches!(done, Err(ReceiveError::Checksum)), "{done:?}");
}

/// Something that must get nothing.
struct Nothing;

impl PieceSink for Nothing {
    async fn take(&mut self, piece: &[u8]) -> bool {
        panic!("{} bytes", piece.len())
    }
}

#[tokio::test]
async fn an_archive_above_its_limit_is_refused_and_the_excess_goes_nowhere() {
    let mut chunks = OneChunk(Some(vec![0; (1 << 20) + 1].into()));
    let mut incoming = incoming(RequestHeader::default(), &mut chunks);
    let refused = incoming.pass_on(Nothing, &mut context()).await.map(drop);
    assert!(matches!(refused, Err(ReceiveError::Large { limit: 0x10_0000 })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_work_does_not_hide_a_wrong_archive() {
    let mut chunks = OneChunk(Some(Bytes::from_static(b"x")));
    let mut incoming = incoming(RequestHeader::default(), &mut chunks);
    let work = async { Err::<(), _>(ReceiveError::Archive("refused".to_owned())) };
    let done = incoming.verify_while(work, &mut context()).await;
    assert!(matches!(done, Err(ReceiveError::Checksum)), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_reads_nothing_ends_at_the_deadline() {
    for length in [1, 1 << 19] {
        let header = RequestHeader { application: "app".to_owned(), ..Default::default() };
        let mut context = context();
        let mut chunks = OneChunk(Some(vec![0; length].into()));
        let mut incoming = incoming(header, &mut chunks);
        let passed_on = incoming.pass_on(Stuck, &mut context).await;
        assert!(matches!(passed_on, Err(ReceiveError::Deadline(_))), "{length} bytes");
    }
}
