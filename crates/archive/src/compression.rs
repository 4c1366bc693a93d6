//! Detects the compression of an archive by its first byte.

use thiserror::Error;

use super::{
    gzip::{Gunzip, InvalidGzip},
    zstd::{self, InvalidZstd, Unzstd},
};

/// The reason why compressed bytes cannot be decompressed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidCompression {
    /// The gzip stream is invalid. Argo CD sends gzip.
    #[error(transparent)]
    Gzip(#[from] InvalidGzip),
    /// The zstd stream is invalid. Our own client sends zstd.
    #[error(transparent)]
    Zstd(#[from] InvalidZstd),
}

/// Decompresses a stream that arrives in pieces.
pub(super) enum Decompressor {
    /// Nothing has arrived yet.
    Empty,
    /// The bytes are not compressed.
    Nothing,
    Gzip(Gunzip),
    Zstd(Unzstd),
}

impl Decompressor {
    /// Reads a part of `input` and returns decompressed bytes, possibly none.
    /// Call it again until `input` is empty and nothing is returned.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<&[u8], InvalidCompression> {
        if let (Self::Empty, Some(first)) = (&*self, input.first()) {
            *self = match *first {
                zstd::FIRST_BYTE => Self::Zstd(Unzstd::new()?),
                // Anything else fails with Go's error for gzip.
                _ => Self::Gzip(Gunzip::new()),
            };
        }
        match self {
            Self::Empty | Self::Nothing => Ok(&[]),
            Self::Gzip(gunzip) => Ok(gunzip.step(input)?),
            Self::Zstd(unzstd) => Ok(unzstd.step(input)?),
        }
    }

    /// A complete gzip header was read. As in Argo CD, later errors are
    /// reported as errors of the listing or of a file.
    pub(super) fn is_past_header(&self) -> bool {
        matches!(self, Self::Gzip(gunzip) if gunzip.is_past_header())
    }

    /// Checks that the stream may end here.
    pub(super) fn finish(&self) -> Result<(), InvalidCompression> {
        match self {
            Self::Empty => Err(InvalidGzip::Empty.into()),
            Self::Nothing => Ok(()),
            Self::Gzip(gunzip) => Ok(gunzip.finish()?),
            Self::Zstd(unzstd) => Ok(unzstd.finish()?),
        }
    }
}
