//! Streams of clients that go away, stall, or send what nobody expects.

use h2::Reason;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tonic::codec::Codec;

use super::*;
use crate::grpc::wire::plugin::{EnvEntry, File};

/// A message with a chunk.
const CHUNK: &[u8] = b"\0\0\0\0\x05\x12\x03\x0a\x01x";

/// The request of a client that sends `bytes`, then cancels the call or goes away.
fn left(bytes: &'static [u8], reason: Reason) -> Inbound {
    let frames = [Ok(Frame::data(Bytes::from_static(bytes))), Err(h2::Error::from(reason))];
    inbound(body(StreamBody::new(tokio_stream::iter(frames))))
}

fn inbound(body: Body) -> Inbound {
    let decoder = tonic_prost::ProstCodec::<(), _>::default().decoder();
    Inbound::new(Streaming::new_request(decoder, body, None, None), REST_TIMEOUT)
}

fn frame(message: Request) -> Bytes {
    let message = AppStreamRequest { request: Some(message) }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat().into()
}

#[tokio::test]
async fn a_cancelled_call_is_no_end_of_its_stream() {
    for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR] {
        for part in [&[], &CHUNK[..3], &CHUNK[..7]] {
            let error = left(part, reason).header().await.unwrap_err();
            assert!(matches!(error, NoHeader::Broken(BrokenStream::Transport)), "{error}");
        }
        let mut inbound = left(CHUNK, reason);
        assert_eq!(inbound.next().await, Ok(Some(Bytes::from_static(b"x"))));
        assert_eq!(inbound.next().await, Err(BrokenStream::Transport));
    }
}

#[tokio::test]
async fn a_request_counts_the_memory_of_its_messages_and_keeps_no_other() {
    let env = vec![EnvEntry { name: "A".into(), value: vec![b'x'; 2 << 20].into() }];
    let app_rel_path = "app".into();
    let metadata = ManifestRequestMetadata { app_rel_path, env, ..Default::default() };
    let file = File { chunk: vec![0; 3 << 20].into() };
    let messages = [Request::Metadata(metadata), Request::File(file)];
    let frames = messages.map(|message| Ok::<_, Status>(Frame::data(frame(message))));
    let mut inbound = inbound(body(StreamBody::new(tokio_stream::iter(frames))));
    assert!(inbound.header().await.unwrap().directory.is_unique());
    assert!((2 << 20..=3 << 20).contains(&inbound.held()), "{}", inbound.held());
    inbound.begin().await.unwrap();
    assert_eq!(inbound.held(), 3 << 20);
}

#[test]
fn variables_without_a_name_are_dropped() {
    let entry = |name: &'static str| EnvEntry { name: name.into(), value: "1".into() };
    let env = vec![entry(""), entry("A")];
    let header = RequestHeader::from(ManifestRequestMetadata { env, ..Default::default() });
    assert_eq!(header.environment, ["A=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_enough_in_time_does_not_stall() {
    let frame = frame(Request::File(File { chunk: vec![0; 64 << 10].into() }));
    let frames = tokio_stream::iter(0..3).then(move |_| {
        let frame = frame.clone();
        async move {
            sleep(REST_TIMEOUT * 2 / 3).await;
            Ok::<_, Status>(Frame::data(frame))
        }
    });
    let mut inbound = inbound(body(StreamBody::new(frames)));
    for _ in 0..3 {
        assert!(matches!(inbound.next().await, Ok(Some(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_packs_its_repository_does_not_stall() {
    for (packing, is_in_time) in [(PACKING * 9 / 10, true), (PACKING * 2, false)] {
        let metadata = frame(Request::Metadata(ManifestRequestMetadata::default()));
        let late = tokio_stream::once(metadata).then(move |metadata| async move {
            sleep(packing).await;
            Ok::<_, Status>(Frame::data(metadata))
        });
        let received = inbound(body(StreamBody::new(late))).header().await;
        let is_silent = matches!(received, Err(NoHeader::Silent));
        assert_eq!((received.is_ok(), is_silent), (is_in_time, !is_in_time), "{received:?}");
    }
}

#[tokio::test]
async fn empty_chunks_without_end_are_no_progress() {
    let empty = || Ok::<_, Status>(Frame::data(Bytes::from_static(b"\0\0\0\0\x02\x12\0")));
    let frames = tokio_stream::iter(std::iter::repeat_with(empty));
    let mut inbound = inbound(body(StreamBody::new(frames)));
    let limit = Duration::from_millis(20);
    inbound.pace = Pace::new(limit);
    assert_eq!(inbound.next().await, Err(BrokenStream::Stalled { limit }));
}

#[tokio::test]
async fn empty_chunks_are_skipped() {
    const EMPTY: &[u8] = b"\0\0\0\0\x02\x12\0";
    let frames = [EMPTY, CHUNK, EMPTY].map(|part| Ok::<_, Status>(Frame::data(part.into())));
    let mut inbound = inbound(body(StreamBody::new(tokio_stream::iter(frames))));
    assert_eq!(inbound.next().await, Ok(Some(Bytes::from_static(b"x"))));
    assert_eq!(inbound.next().await, Ok(None));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_has_the_text_of_gos_server() {
    for (message, start) in [
        (&b"\0\0\0\0\x01\xff"[..], "grpc: failed to unmarshal the received message: "),
        (b"\0\x01\0\0\0", "grpc: received message larger than max (16777216 vs. 4194304): "),
    ] {
        let error = left(message, Reason::CANCEL).next().await.unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[tokio::test]
async fn only_a_long_chunk_is_mended_by_the_size_of_chunks() {
    const LONG: &[u8] = b"\0\x01\0\0\0";
    let chunk = left(LONG, Reason::CANCEL).next().await.unwrap_err().to_string();
    let header = left(LONG, Reason::CANCEL).header().await.unwrap_err().to_string();
    assert!(chunk.ends_with(LONG_CHUNK), "{chunk}");
    assert!(header.ends_with(LONG_HEADER), "{header}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_read_already_does_not_outlast_the_end_of_all_requests() {
    let silent = StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Status>>());
    let mut inbound = inbound(body(silent));
    let (drains, cut_off) = (Drains::default(), CancellationToken::new());
    let began = Instant::now();
    let cut = async {
        sleep(DRAIN_TURN / 2).await;
        cut_off.cancel();
    };
    tokio::join!(inbound.drain_until(&drains, &cut_off), cut);
    assert_eq!(began.elapsed(), DRAIN_TURN / 2 + LAST_DRAIN);
}
