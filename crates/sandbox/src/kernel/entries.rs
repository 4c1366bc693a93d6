//! Flags to open directories, and the kinds and sizes of their entries.

use nix::{
    fcntl::OFlag,
    sys::stat::{FileStat, SFlag},
};

/// Flags for a directory that is only the start of paths.
pub(crate) const HANDLE: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Flags for a directory that is listed.
pub(crate) const LIST: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Size in bytes of the unit of `st_blocks`, on every file system.
pub(crate) const BLOCK: u64 = 512;

/// The kind of an entry.
pub(crate) fn kind(about: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT
}
