//! How an archive is compressed, told by its first byte.

use thiserror::Error;

use super::{
    gzip::{Gunzip, InvalidGzip},
    zstd::{self, InvalidZstd, Unzstd},
};

/// Why compressed bytes cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidCompression {
    /// As gzip, which is what Argo CD sends.
    #[error(transparent)]
    Gzip(#[from] InvalidGzip),
    /// As zstd, which our own client sends.
    #[error(transparent)]
    Zstd(#[from] InvalidZstd),
}

/// Unpacks a stream that arrives in pieces.
pub(super) enum Decompressor {
    /// Nothing has arrived yet.
    Empty,
    Gzip(Gunzip),
    Zstd(Unzstd),
}

impl Decompressor {
    /// Consumes some of `input` and returns what became readable, which may be
    /// nothing. Call again until `input` is empty and nothing comes.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<&[u8], InvalidCompression> {
        if let (Self::Empty, Some(first)) = (&*self, input.first()) {
            *self = match *first {
                zstd::FIRST_BYTE => Self::Zstd(Unzstd::new()?),
                // Whatever is neither is refused in Go's words for gzip.
                _ => Self::Gzip(Gunzip::new()),
            };
        }
        match self {
            Self::Empty => Ok(&[]),
            Self::Gzip(gunzip) => Ok(gunzip.step(input)?),
            Self::Zstd(unzstd) => Ok(unzstd.step(input)?),
        }
    }

    /// Whether what came so far begins like gzip: what is wrong from here on is
    /// found, as Argo CD does it, while entries are read.
    pub(super) fn is_past_header(&self) -> bool {
        matches!(self, Self::Gzip(gunzip) if gunzip.is_past_header())
    }

    /// Whether the stream may end here.
    pub(super) fn finish(&self) -> Result<(), InvalidCompression> {
        match self {
            Self::Empty => Err(InvalidGzip::Empty.into()),
            Self::Gzip(gunzip) => Ok(gunzip.finish()?),
            Self::Zstd(unzstd) => Ok(unzstd.finish()?),
        }
    }
}
