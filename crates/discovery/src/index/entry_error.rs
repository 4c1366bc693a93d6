//! Errors of entries and limits of an index.

use super::LookupError;

/// The reason why an entry cannot be unpacked or does not fit into the index.
///
/// The caller adds the entry's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The name is outside of the root.
    #[error("illegal filepath in archive")]
    Illegal,
    /// The name has a NUL byte or more than 4,095 bytes.
    #[error("file name too long or with a NUL byte")]
    Unnameable,
    /// A directory, or a parent of a file, cannot be created.
    #[error("error creating nested folders: {0}")]
    Folder(MakeError),
    /// The file cannot be created.
    #[error("error creating file: {0}")]
    File(MakeError),
    /// The link's target is outside of the root.
    #[error("illegal filepath in symlink")]
    LinkOutside,
    /// A directory in the link's name is a link.
    #[error("illegal symlink parent directory")]
    LinkBelowLink,
    /// The link's target cannot be examined.
    #[error("error checking symlink target: {0}")]
    LinkTarget(LookupError),
    /// The link cannot be created.
    #[error("error creating symlink: {0}")]
    Link(MakeError),
    /// More entries than [`IndexLimits`](super::IndexLimits) allows.
    #[error("more than {limit} files, directories and links")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// Names and links lead through more directories than
    /// [`IndexLimits`](super::IndexLimits) allows.
    #[error("names and links lead through more than {limit} directories")]
    TooManyLookups {
        /// The limit.
        limit: u64,
    },
    /// More bytes of names than [`IndexLimits`](super::IndexLimits) allows.
    #[error("more than {limit} bytes of distinct names")]
    TooManyNameBytes {
        /// The limit.
        limit: usize,
    },
}

/// The reason why a file, directory or link cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The parent directory cannot be reached.
    #[error(transparent)]
    Parent(#[from] LookupError),
    /// The name is too long (ENAMETOOLONG).
    #[error("file name too long")]
    NameTooLong,
    /// The name exists (EEXIST).
    #[error("file exists")]
    Exists,
    /// The name is a directory (EISDIR).
    #[error("is a directory")]
    IsADirectory,
}
