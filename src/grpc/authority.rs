//! Makes requests of Argo CD's client acceptable to h2.
//!
//! grpc-go sends the path of the socket as `:authority`, either raw
//! (`/home/argocd/…`) or percent-encoded (`%2Fhome%2F…`, or `home%2F…`). RFC 3986
//! does not allow this, and h2 resets every such stream with `PROTOCOL_ERROR`
//! before our code sees the request. This module therefore replaces the value
//! in the bytes of the connection, before h2 reads them.

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

/// A client's connection in which every `:authority` is legal.
///
/// Reads go straight into the caller's buffer. If a read contains a header
/// frame, the bytes from that frame on are repaired first. Writes pass through
/// unchanged.
#[derive(Debug)]
pub(super) struct Repaired<S> {
    inner: S,
    repair: Repair,
    /// Repaired bytes that the caller has not read yet: at most one header block,
    /// up to 8/5 as long as on the wire because it is repaired without Huffman
    /// coding, and one read.
    pending: BytesMut,
}

impl<S> Repaired<S> {
    /// Wraps a connection from which nothing has been read yet.
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
    /// Reads once and leaves the bytes that need no repair in `buffer`. Returns
    /// false at the end of the stream; bytes that were held back are then pending.
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
        // To the caller, a read of 0 bytes means the end of the stream. So read on
        // while all bytes are held back.
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
