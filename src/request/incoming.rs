//! A request that is still arriving: its header, and the archive behind it.

use std::{borrow::Cow, fmt::Write};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{
    deadline::Passed,
    progress::{Course, Phase},
    workspace::Received,
};
use crate::sandbox::{Lease, NotUnpacked, Unconfined, UnpackLimits, Unpacking};

/// Bytes collected before they are passed on: chunks are 1 KiB by default, and
/// a system call for each would cost more than all else.
const WINDOW: usize = 64 * 1024;

/// Where an archive's chunks come from.
pub trait Chunks: Send {
    /// The next chunk, `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, BrokenStream>> + Send;
}

/// Why no more chunks come. The texts are Argo CD's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BrokenStream {
    /// The client went away, or asked to stop.
    #[error("stream Recv error: {0}")]
    Transport(String),
    /// Something else came where a chunk belongs.
    #[error("stream request file is nil")]
    NoChunk,
}

/// What a client says about the archive it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Last component of the application's directory.
    pub application: String,
    /// The application's directory, relative to the repository; not to be trusted.
    pub directory: Bytes,
    /// Lower-case hex SHA-256 of the archive as it arrives.
    pub checksum: Bytes,
    /// `NAME=VALUE`, in order.
    pub environment: Vec<Bytes>,
}

impl Header {
    /// What Argo CD calls the application; the header itself only knows its directory.
    #[must_use]
    pub fn application_name(&self) -> Cow<'_, str> {
        let value =
            self.environment.iter().find_map(|entry| entry.strip_prefix(b"ARGOCD_APP_NAME="));
        value.map_or(Cow::Borrowed(&self.application), String::from_utf8_lossy)
    }
}

/// A header that was read, in front of an archive that was not.
#[derive(Debug)]
pub struct Incoming<'c, C> {
    /// What the client says.
    pub header: Header,
    chunks: &'c mut C,
}

/// What a repository may be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Compressed bytes.
    pub archive: u64,
    /// What may come out of them.
    pub unpacked: UnpackLimits,
}

/// Why an archive was not received. The texts are Argo CD's where it has one.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The stream broke off.
    #[error("error receiving tgz file: {0}")]
    Stream(#[from] BrokenStream),
    /// The deadline passed before all of it was there.
    #[error("error receiving tgz file: stream context error: {0}")]
    Deadline(#[from] Passed),
    /// It is not what the client's checksum is of.
    #[error("error receiving tgz file: file checksum validation error")]
    Checksum,
    /// It is larger than allowed.
    #[error(
        "error receiving tgz file: the archive is larger than {limit} bytes: raise \
         --max-archive-bytes, or exclude files with --plugin-tar-exclude on the repo-server"
    )]
    Large {
        /// The limit in bytes.
        limit: u64,
    },
    /// It cannot be unpacked.
    #[error("error decompressing tgz file: {0}")]
    Archive(String),
    /// The sandbox's fault.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl<'c, C: Chunks> Incoming<'c, C> {
    /// A request whose header was read.
    pub fn new(header: Header, chunks: &'c mut C) -> Self {
        Self { header, chunks }
    }

    /// Has the archive unpacked while it arrives, and then compares checksums.
    ///
    /// Whatever is wrong with the archive, the stream is read to its end first:
    /// a client that is still sending would never see the answer.
    pub async fn receive(
        self,
        mut lease: Lease,
        limits: ArchiveLimits,
        course: &mut Course,
    ) -> Result<Received, ReceiveError> {
        let Course { plugin, deadline, progress } = course;
        progress.enter(Phase::Receive);
        let unpacking = lease.unpack(limits.unpacked, plugin.preserve_file_mode).await?;
        let mut funnel = Funnel::new(unpacking);
        while let Some(chunk) = deadline.limit(self.chunks.next()).await?? {
            progress.received += chunk.len() as u64;
            if progress.received <= limits.archive {
                funnel.pour(&chunk).await;
            }
        }
        if progress.received > limits.archive {
            return Err(ReceiveError::Large { limit: limits.archive });
        }
        let unpacking = funnel.check(&self.header.checksum).await?;
        progress.unpacked = Some(deadline.limit(unpacking.finish()).await??);
        Ok(Received::new(lease, self.header))
    }
}

/// Passes an archive on in larger pieces, and computes its checksum.
struct Funnel {
    unpacking: Unpacking,
    checksum: Sha256,
    window: BytesMut,
    /// The worker reads no more; what comes is only hashed.
    closed: bool,
}

impl Funnel {
    fn new(unpacking: Unpacking) -> Self {
        let window = BytesMut::with_capacity(WINDOW);
        Self { unpacking, checksum: Sha256::new(), window, closed: false }
    }

    async fn pour(&mut self, chunk: &[u8]) {
        self.checksum.update(chunk);
        if self.closed {
            return;
        }
        self.window.extend_from_slice(chunk);
        if self.window.len() >= WINDOW {
            self.flush().await;
        }
    }

    async fn flush(&mut self) {
        // Why the worker stopped reading is asked once all has arrived.
        self.closed = self.unpacking.write(&self.window).await.is_err();
        self.window.clear();
    }

    async fn check(mut self, stated: &[u8]) -> Result<Unpacking, ReceiveError> {
        if !self.closed && !self.window.is_empty() {
            self.flush().await;
        }
        if hex(&self.checksum.finalize()).as_bytes() != stated {
            return Err(ReceiveError::Checksum);
        }
        Ok(self.unpacking)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl From<NotUnpacked> for ReceiveError {
    fn from(error: NotUnpacked) -> Self {
        match error {
            NotUnpacked::Refused(text) => Self::Archive(text),
            NotUnpacked::Unconfined(unconfined) => Self::Unconfined(unconfined),
        }
    }
}
