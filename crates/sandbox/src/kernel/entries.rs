//! Flags to open directories, and the names, kinds, sizes and identities of their entries.

use std::ffi::CStr;

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

/// Device and inode of an entry.
pub(crate) fn identity(about: &FileStat) -> (u64, u64) {
    (about.st_dev, about.st_ino)
}

/// True for `.` and `..`, which every directory lists.
pub(crate) fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}
