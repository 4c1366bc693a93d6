//! An archive on its way: hashed, and passed on in larger pieces.

use std::fmt::Write;

use bytes::BytesMut;
use sha2::{Digest, Sha256};

/// Bytes collected before they are passed on: chunks are 1 KiB by default, and
/// a system call for each would cost more than all else.
const WINDOW: usize = 64 * 1024;

/// Who an archive is passed on to.
pub(super) trait Taker: Send {
    /// Takes the next piece; whether more is wanted. What is wrong with the
    /// archive is for later: it has to arrive whole in any case.
    fn take(&mut self, piece: &[u8]) -> impl Future<Output = bool> + Send;
}

/// Takes an archive of which only the checksum is wanted.
pub(super) struct Nobody;

impl Taker for Nobody {
    async fn take(&mut self, _piece: &[u8]) -> bool {
        false
    }
}

/// Passes an archive on, and computes its checksum.
pub(super) struct Funnel<T> {
    taker: T,
    checksum: Sha256,
    window: BytesMut,
    /// Nobody takes any more; what comes is only hashed.
    closed: bool,
}

/// An archive that is not what its client says it is.
pub(super) struct WrongChecksum;

impl<T: Taker> Funnel<T> {
    pub(super) fn new(taker: T) -> Self {
        let window = BytesMut::with_capacity(WINDOW);
        Self { taker, checksum: Sha256::new(), window, closed: false }
    }

    pub(super) async fn pour(&mut self, chunk: &[u8]) {
        self.checksum.update(chunk);
        if self.closed {
            return;
        }
        self.window.extend_from_slice(chunk);
        if self.window.len() >= WINDOW {
            self.flush().await;
        }
    }

    /// Ends the archive: whoever took it, if it is what was stated.
    pub(super) async fn check(mut self, stated: &[u8]) -> Result<T, WrongChecksum> {
        if !self.closed && !self.window.is_empty() {
            self.flush().await;
        }
        if hex(&self.checksum.finalize()).as_bytes() != stated {
            return Err(WrongChecksum);
        }
        Ok(self.taker)
    }

    async fn flush(&mut self) {
        self.closed = !self.taker.take(&self.window).await;
        self.window.clear();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
