//! Reads the archives that Argo CD sends: tar in gzip or zstd.
//!
//! The caller pushes compressed bytes into a [`Reader`] in pieces of any size.
//! The reader passes each entry to a [`Sink`], which writes files or only reads
//! names. Accepted archives and error texts are those of Go's `compress/gzip`
//! and `archive/tar`, which Argo CD uses. Memory is one output buffer (64 KiB),
//! one header (512 bytes) and one extended header (at most 1 MiB), plus the
//! zstd window (at most 8 MiB).
//!
//! Read the modules in this order: `reader`, `compression` with `gzip` and
//! `zstd`, `tar` with `header` and `pax`, then the parts that sinks use:
//! `path`, `selection`, `limits`, `refusal` and `counter`.

#![forbid(unsafe_code)]

mod compression;
mod counter;
mod gzip;
mod header;
mod invalid_tar;
mod limits;
mod path;
mod pax;
mod reader;
mod refusal;
mod selection;
mod tar;
mod zstd;

pub use compression::InvalidCompression;
pub use counter::{EntryCounter, MAX_DEPTH, MAX_PATH_BYTES};
pub use gzip::InvalidGzip;
pub use limits::{UnpackLimit, UnpackLimits};
pub use path::{EntryPath, Escape};
pub use reader::{ArchiveError, Reader};
pub use refusal::Refusal;
pub use selection::{InvalidPathPattern, PathPattern, Selected, Selection};
pub use tar::{Entry, EntryKind, Sink};
pub use zstd::InvalidZstd;
