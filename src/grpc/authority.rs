//! Lets Argo CD's own client through h2.
//!
//! grpc-go names the socket it dials as `:authority`: the socket's path, raw
//! (`/home/argocd/…`) or percent-encoded (`%2Fhome%2F…`, or `home%2F…`). That is
//! no authority by RFC 3986, and h2 resets every such stream with
//! `PROTOCOL_ERROR` before anything above it learns of the request. So the value
//! is made legal below h2, in the bytes that it reads.

mod block;
mod frame;
mod hpack;
mod huffman;
mod legal;
mod repair;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use repair::Repair;

/// A client's connection with legal authorities.
///
/// Reads go straight into the caller's buffer; only what a read brought from its
/// first header frame on takes the way round. Writes pass through. Dropping it
/// drops the connection.
#[derive(Debug)]
pub(super) struct Repaired<S> {
    inner: S,
    repair: Repair,
    /// Repaired, but not yet read: at most one block, grown by the Huffman
    /// code's 8 to 5, and one read.
    pending: BytesMut,
}

impl<S> Repaired<S> {
    /// A connection of which nothing has been read yet.
    pub(super) fn new(inner: S) -> Self {
        Self { inner, repair: Repair::default(), pending: BytesMut::new() }
    }

    fn deliver(&mut self, buffer: &mut ReadBuf<'_>) {
        let length = self.pending.len().min(buffer.remaining());
        if let Some(delivered) = self.pending.get(..length) {
            buffer.put_slice(delivered);
            self.pending.advance(length);
        }
    }
}

impl<S: AsyncRead + Unpin> Repaired<S> {
    /// Reads once, and leaves in `buffer` what needs no repair. Tells whether the
    /// stream goes on; at its end, what was held back is pending.
    fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().get(start..).unwrap_or_default();
        if read.is_empty() {
            self.repair.finish(&mut self.pending);
            return Poll::Ready(Ok(false));
        }
        let passed = self.repair.pass(read);
        if let Some(rest) = read.get(passed..).filter(|rest| !rest.is_empty()) {
            self.repair.push(rest, &mut self.pending);
            buffer.set_filled(start + passed);
        }
        Poll::Ready(Ok(true))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Repaired<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buffer.filled().len();
        let mut open = buffer.remaining() > 0;
        // A read that ends with nothing new means the end of the stream to the
        // caller, so it must not end while all that was read is held back.
        while open && buffer.filled().len() == start {
            if this.pending.is_empty() {
                open = ready!(this.poll_more(cx, buffer))?;
            }
            this.deliver(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Repaired<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
