//! A request that is still arriving: its header, and the archive behind it.

use std::borrow::Cow;

use bytes::Bytes;
use cmp_archive::UnpackLimits;
use cmp_sandbox::{Lease, NotUnpacked, Unconfined, Unpacking};
use thiserror::Error;

use super::{
    deadline::Passed,
    funnel::{Funnel, Nobody, Taker, WrongChecksum},
    progress::{Course, Phase},
    survey::{Survey, Unlisted},
    verdict::Surveyed,
    workspace::Received,
};
use crate::settings::MAX_ARCHIVE;

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
        "error receiving tgz file: the archive is larger than {}: {}, or exclude files with \
         --plugin-tar-exclude on the repo-server",
        MAX_ARCHIVE.say(*limit), MAX_ARCHIVE.raise(false)
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
    pub async fn receive(
        mut self,
        mut lease: Lease,
        limits: ArchiveLimits,
        course: &mut Course,
    ) -> Result<Received, ReceiveError> {
        course.progress.enter(Phase::Receive);
        let preserve_file_mode = course.plugin.preserve_file_mode;
        let unpacking = lease.unpack(limits.unpacked, preserve_file_mode).await?;
        let unpacking = self.pass_on(unpacking, limits, course).await?;
        course.progress.unpacked = Some(course.deadline.limit(unpacking.finish()).await??);
        Ok(Received::new(lease, self.header))
    }

    /// Reads the archive for its names only; nothing is written anywhere.
    pub async fn survey(
        mut self,
        limits: ArchiveLimits,
        course: &mut Course,
    ) -> Result<Surveyed, ReceiveError> {
        course.progress.enter(Phase::Receive);
        let survey = self.pass_on(Survey::new(limits.unpacked), limits, course).await?;
        Ok(Surveyed::new(survey.finish()?, self.header.directory))
    }

    /// Reads an archive whose answer is known already, if it is the one stated.
    pub async fn verify(
        mut self,
        limits: ArchiveLimits,
        course: &mut Course,
    ) -> Result<(), ReceiveError> {
        course.progress.enter(Phase::Receive);
        self.pass_on(Nobody, limits, course).await.map(drop)
    }

    /// Passes the archive on while it arrives, and then compares checksums.
    ///
    /// Whatever is wrong with the archive, the stream is read to its end first:
    /// a client that is still sending would never see the answer.
    async fn pass_on<T: Taker>(
        &mut self,
        taker: T,
        limits: ArchiveLimits,
        course: &mut Course,
    ) -> Result<T, ReceiveError> {
        let Course { deadline, progress, .. } = course;
        let mut funnel = Funnel::new(taker);
        while let Some(chunk) = deadline.limit(self.chunks.next()).await?? {
            progress.received += chunk.len() as u64;
            if progress.received <= limits.archive {
                funnel.pour(&chunk).await;
            }
        }
        if progress.received > limits.archive {
            return Err(ReceiveError::Large { limit: limits.archive });
        }
        Ok(funnel.check(&self.header.checksum).await?)
    }
}

impl Taker for Unpacking<'_> {
    async fn take(&mut self, piece: &[u8]) -> bool {
        // Why the worker stopped reading is asked once all has arrived.
        self.write(piece).await.is_ok()
    }
}

impl From<WrongChecksum> for ReceiveError {
    fn from(_wrong: WrongChecksum) -> Self {
        Self::Checksum
    }
}

impl From<Unlisted> for ReceiveError {
    fn from(error: Unlisted) -> Self {
        Self::Archive(error.to_string())
    }
}

impl From<NotUnpacked> for ReceiveError {
    fn from(error: NotUnpacked) -> Self {
        match error {
            NotUnpacked::Refused(text) => Self::Archive(text),
            NotUnpacked::Unconfined(unconfined) => Self::Unconfined(unconfined),
        }
    }
}
