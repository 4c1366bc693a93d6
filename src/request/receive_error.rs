//! The error of an archive that was not received.

use std::time::Duration;

use cmp_sandbox::Unconfined;
use thiserror::Error;

use super::{
    checksum::WrongChecksum, deadline::DeadlinePassed, excess::Excess, hint, index::NotIndexed,
    seconds::Seconds,
};
use crate::{
    container::OomKill,
    settings::{MAX_ARCHIVE, MEMORY, STREAM_TIMEOUT},
    volume::{FullVolume, NoTurn},
};

/// Bytes that a client must send within the time limit for a stream, unless the
/// archive ends before. One byte now and then would otherwise hold a place.
pub const STALL_BYTES: u64 = 64 << 10;

/// Reasons why the stream ended early. The texts are Argo CD's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BrokenStream {
    /// The client disconnected or cancelled the call.
    #[error("stream Recv error: rpc error: code = Canceled desc = context canceled")]
    Transport,
    /// A message cannot be read.
    #[error("{text}")]
    Unreadable {
        /// The reason.
        text: String,
        /// The message is longer than the limit.
        is_long: bool,
    },
    /// A message is not a chunk.
    #[error("stream request file is nil")]
    NoChunk,
    /// The client sent too little for too long.
    #[error(
        "the client sent less than {} in {}: {}",
        MEMORY.say(STALL_BYTES), Seconds(*limit), STREAM_TIMEOUT.raise(false)
    )]
    Stalled {
        /// The time limit.
        limit: Duration,
    },
}

/// Reasons why an archive was not received. The texts are Argo CD's, if it has one.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The stream ended early.
    #[error("error receiving tgz file: {0}")]
    Stream(#[from] BrokenStream),
    /// The deadline passed before the archive was complete.
    #[error("error receiving tgz file: stream context error: {0}")]
    Deadline(#[from] DeadlinePassed),
    /// The deadline passed before there was memory for the index of the archive's names.
    #[error(
        "error receiving tgz file: stream context error: {0}; until then the request waited for \
         memory to index the names in its archive"
    )]
    NoIndexMemory(DeadlinePassed),
    /// The archive does not have the client's checksum.
    #[error("error receiving tgz file: file checksum validation error")]
    Checksum,
    /// The archive is larger than allowed.
    #[error(
        "error receiving tgz file: the archive is larger than {}: {}, or exclude files with \
         --plugin-tar-exclude on the repo-server",
        MAX_ARCHIVE.say(*limit), MAX_ARCHIVE.raise(false)
    )]
    Large {
        /// The limit in bytes.
        limit: u64,
    },
    /// The archive cannot be unpacked.
    #[error("error decompressing tgz file: {0}")]
    Archive(String),
    /// The process that unpacks the archive was killed.
    #[error(
        "error decompressing tgz file: the process that unpacks the archive was killed: {}",
        hint::unpacking(excess.as_deref(), oom.as_ref())
    )]
    Killed {
        /// The limit that the request exceeded.
        excess: Option<Box<Excess>>,
        /// The kernel has killed a process for lack of memory meanwhile.
        oom: Option<OomKill>,
    },
    /// The work volume has no space for the repository.
    #[error(transparent)]
    Full(#[from] FullVolume),
    /// The request cannot take its turn to use the last space of the work volume.
    #[error(transparent)]
    NoTurn(#[from] NoTurn),
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl From<WrongChecksum> for ReceiveError {
    fn from(_wrong: WrongChecksum) -> Self {
        Self::Checksum
    }
}

impl From<NotIndexed> for ReceiveError {
    fn from(error: NotIndexed) -> Self {
        match error {
            NotIndexed::Archive(error) => Self::Archive(error.to_string()),
            NotIndexed::Late(passed) => Self::Deadline(passed),
            NotIndexed::NoMemory(passed) => Self::NoIndexMemory(passed),
        }
    }
}
