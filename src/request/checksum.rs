//! Computes an archive's checksum while it passes on to its reader.

use std::fmt::Write;

use bytes::BytesMut;
use sha2::{Digest, Sha256};

/// Bytes that are collected before they pass on. Chunks have 1 KiB by default,
/// and one system call for each would cost more than all other work.
const BUFFER: usize = 64 * 1024;

/// The reader of an archive.
pub(super) trait PieceSink: Send {
    /// Takes the next piece; returns false if it needs no more. It reports errors
    /// later, because the archive has to arrive completely in any case.
    fn take(&mut self, piece: &[u8]) -> impl Future<Output = bool> + Send;
}

/// Discards an archive of which only the checksum matters.
pub(super) struct Discard;

impl PieceSink for Discard {
    async fn take(&mut self, _piece: &[u8]) -> bool {
        false
    }
}

/// Passes an archive on and computes its checksum.
pub(super) struct ChecksumReader<T> {
    sink: T,
    checksum: Sha256,
    buffer: BytesMut,
    /// The reader needs no more pieces; only the checksum is computed.
    closed: bool,
}

/// The archive does not have the checksum that its client stated.
pub(super) struct WrongChecksum;

impl<T: PieceSink> ChecksumReader<T> {
    pub(super) fn new(sink: T) -> Self {
        let buffer = BytesMut::with_capacity(BUFFER);
        Self { sink, checksum: Sha256::new(), buffer, closed: false }
    }

    pub(super) async fn push(&mut self, chunk: &[u8]) {
        self.checksum.update(chunk);
        if self.closed {
            return;
        }
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() >= BUFFER {
            self.flush().await;
        }
    }

    /// Ends the archive. Returns the reader if the checksum is as `stated`.
    pub(super) async fn verify(mut self, stated: &[u8]) -> Result<T, WrongChecksum> {
        if !self.closed && !self.buffer.is_empty() {
            self.flush().await;
        }
        if hex(&self.checksum.finalize()).as_bytes() != stated {
            return Err(WrongChecksum);
        }
        Ok(self.sink)
    }

    async fn flush(&mut self) {
        self.closed = !self.sink.take(&self.buffer).await;
        self.buffer.clear();
    }
}

/// The bytes in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
