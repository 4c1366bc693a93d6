//! A connection's stream that tells whether the client reads.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::connections::Progress;

/// Reports its writes to the connection's [`Progress`].
#[derive(Debug)]
pub(super) struct WatchedStream {
    stream: TokioIo<TcpStream>,
    progress: Progress,
    has_unsent: bool,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, progress: Progress) -> Self {
        Self { stream: TokioIo::new(stream), progress, has_unsent: false }
    }

    fn sends(&mut self) {
        self.has_unsent = true;
        self.progress.sends();
    }
}

impl Read for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.sends();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.sends();
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes only after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.has_unsent = false;
        self.progress.sent();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for WatchedStream {
    /// Resets a connection whose answer is incomplete. Otherwise the kernel would
    /// keep megabytes for a client that does not read them.
    fn drop(&mut self) {
        if self.has_unsent {
            // It fails only for a connection that is gone already.
            let _ = self.stream.inner().set_zero_linger();
        }
    }
}
