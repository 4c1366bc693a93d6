//! Tests of the stream with repair, for its reader and its writer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{
    super::Repaired,
    client::{DATA, Framing, authority, block, frame, headers, opening},
    pieces::pushed,
    server::{End, Wire},
};

fn conversation() -> Vec<u8> {
    let mut bytes = opening();
    for stream in [1, 3, 5] {
        let block = block(&authority(b"/run/p.sock"), &[]);
        bytes.extend(headers(stream, &block, &Framing::default()));
        bytes.extend(frame(DATA, 1, stream, &[9; 100]));
    }
    bytes
}

/// Reads to the end with buffers of `room` bytes.
fn read_all<S: AsyncRead + Unpin>(mut stream: S, room: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        let mut space = vec![0xee; room + 1];
        let mut buffer = ReadBuf::new(&mut space);
        // Bytes that are already in the buffer must stay.
        buffer.put_slice(b"!");
        match Pin::new(&mut stream).poll_read(&mut cx, &mut buffer) {
            Poll::Pending => assert_eq!(buffer.filled(), b"!"),
            Poll::Ready(outcome) => {
                outcome.unwrap();
                assert_eq!(buffer.filled()[0], b'!');
                if buffer.filled().len() == 1 {
                    return read;
                }
                read.extend_from_slice(&buffer.filled()[1..]);
            }
        }
    }
}

#[test]
fn a_reader_gets_the_repaired_bytes_with_any_buffer() {
    let bytes = conversation();
    let expected = pushed(&bytes, bytes.len());
    for room in [1, 2, 8, 9, 10, 64, 1_000] {
        for piece in [1, 3, 9, 33, 64, 1_000] {
            let stream = Repaired::new(Wire::new(&bytes, piece, End::Hangup));
            assert_eq!(read_all(stream, room), expected, "{piece} into {room}");
        }
    }
}

#[test]
fn a_truncated_block_comes_out_at_the_end() {
    let bytes = conversation();
    for length in 0..120 {
        let stream = Repaired::new(Wire::new(&bytes[..length], 50, End::Hangup));
        assert_eq!(read_all(stream, 16), pushed(&bytes[..length], 50));
    }
}

#[test]
fn a_read_without_room_reads_nothing() {
    let bytes = conversation();
    let mut stream = Repaired::new(Wire::new(&bytes, 50, End::Hangup));
    let mut cx = Context::from_waker(Waker::noop());
    let outcome = Pin::new(&mut stream).poll_read(&mut cx, &mut ReadBuf::new(&mut []));
    assert!(matches!(outcome, Poll::Ready(Ok(()))));
    assert_eq!(read_all(stream, 100), pushed(&bytes, bytes.len()));
}

#[tokio::test]
async fn both_directions_work_over_a_real_pipe() {
    let (mut client, server) = tokio::io::duplex(64);
    let mut server = Repaired::new(server);
    let bytes = conversation();
    let sending = async {
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let serving = async {
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        server.write_all(b"/answer%2F").await.unwrap();
        server.shutdown().await.unwrap();
        read
    };
    let (answer, read) = tokio::join!(sending, serving);
    assert_eq!(read, pushed(&bytes, bytes.len()));
    assert_eq!(answer, b"/answer%2F");
}

/// Records each vectored write as one.
#[derive(Default)]
struct Gatherer(Vec<Vec<u8>>);

impl AsyncWrite for Gatherer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        panic!("a vectored write was split");
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0 = slices.iter().map(|slice| slice.to_vec()).collect();
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn vectored_writes_stay_whole() {
    let mut stream = Repaired::new(Gatherer::default());
    assert!(stream.is_write_vectored());
    let slices = [IoSlice::new(b"one"), IoSlice::new(b"two")];
    assert_eq!(stream.write_vectored(&slices).await.unwrap(), 6);
    assert_eq!(stream.inner.0, [b"one", b"two"]);
}
