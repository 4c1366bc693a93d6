//! Entries that cannot be unpacked, and limits.

use super::LookupError;

/// Why unpacking would stop at an entry, or the index is full.
///
/// The entry's name is the caller's to add; the texts are those behind Argo CD's
/// own prefixes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The name is not strictly below the root.
    #[error("illegal filepath in archive")]
    Illegal,
    /// No file system takes the name: NUL, or more than 4,095 bytes in all.
    #[error("file name too long or with a NUL byte")]
    Unnameable,
    /// A directory, or one above a file, cannot be made.
    #[error("error creating nested folders: {0}")]
    Folder(MakeError),
    /// The file cannot be made.
    #[error("error creating file: {0}")]
    File(MakeError),
    /// The link's target is not strictly below the root.
    #[error("illegal filepath in symlink")]
    LinkOutside,
    /// The link's target exists but cannot be resolved.
    #[error("error checking symlink realpath: {0}")]
    LinkTarget(LookupError),
    /// The link's target goes through more than 255 links, or in a circle.
    #[error("error checking symlink realpath: EvalSymlinks: too many links")]
    LinkLoop,
    /// The link cannot be made.
    #[error("error creating symlink: {0}")]
    Link(MakeError),
    /// More entries than [`IndexLimits`](super::IndexLimits) allows.
    #[error("more than {limit} files, directories and links")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// Names and links that lead through more directories than
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

/// Why a file system refuses to make something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The directory it belongs in cannot be reached.
    #[error(transparent)]
    Parent(#[from] LookupError),
    /// No file has a name of this length (ENAMETOOLONG).
    #[error("file name too long")]
    NameTooLong,
    /// Something is there already (EEXIST).
    #[error("file exists")]
    Exists,
    /// A directory is there already (EISDIR).
    #[error("is a directory")]
    IsADirectory,
}
