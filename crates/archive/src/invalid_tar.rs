//! Errors of tar archives.

use thiserror::Error;

/// The reason why bytes are not a tar archive. The texts are those of Go's
/// `archive/tar`, except for `Sparse`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum InvalidTar {
    #[error("archive/tar: invalid tar header")]
    Header,
    #[error("archive/tar: header field too long")]
    Long,
    #[error("unexpected EOF")]
    Truncated,
    /// Only `tar --sparse` writes such files. They are refused because their
    /// holes can have any size.
    #[error("the archive holds a sparse file, which is not supported: pack it without --sparse")]
    Sparse,
}
