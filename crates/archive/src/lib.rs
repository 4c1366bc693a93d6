//! The archive a repository arrives in: gzip or zstd around tar, read as it
//! streams by.
//!
//! [`Reader`] is pushed compressed bytes in pieces of any size and hands what
//! is inside to a [`Sink`]: a worker that writes files, or discovery that only
//! looks at names. What is accepted, and the texts of what is not, are those of
//! Go's `compress/gzip` and `archive/tar`, because that is what Argo CD uses.
//! Memory is one output buffer and one header, whatever the archive holds.

#![forbid(unsafe_code)]

mod compression;
mod gzip;
mod header;
mod path;
mod pax;
mod reader;
mod refusal;
mod tally;
mod tar;
mod zstd;

pub use compression::InvalidCompression;
pub use gzip::InvalidGzip;
pub use path::{EntryPath, Escape};
pub use reader::{ArchiveError, Reader};
pub use refusal::Refusal;
pub use tally::{Limits, Tally};
pub use tar::{Entry, Kind, Sink};
pub use zstd::InvalidZstd;
