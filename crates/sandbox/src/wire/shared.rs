//! Directories that requests of one plugin share.

use std::{
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use nix::unistd::Gid;
use prost::Message;
use rustix::fs::{XattrFlags, fsetxattr};

/// Mode of a cache: the group may do everything, and new files get the group.
pub(crate) const MODE: u32 = 0o2770;

/// Default ACL `user::rwx group::rwx other::---` in the kernel's format. It
/// replaces the umask, so that files created without an explicit mode are open
/// to the group.
const DEFAULT_ACL: [u8; 28] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255,
    255, 255, 255,
];

/// Opens files that are created in a directory to its group. Without ACLs,
/// modes are corrected only at the end of each request.
pub(crate) fn open_new_files(directory: impl AsFd) {
    let _ = fsetxattr(directory, "system.posix_acl_default", &DEFAULT_ACL, XattrFlags::empty());
}

/// The caches of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedCaches {
    /// Group whose members may enter; `None` in tiers without separate UIDs.
    pub(crate) group: Option<Gid>,
    /// Directory of the owner.
    pub(crate) directory: PathBuf,
    /// File names of the caches in it.
    pub(crate) names: Vec<String>,
}

impl SharedCaches {
    /// Returns the absolute path of a cache, if this owner has one of that
    /// name.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.names.iter().any(|known| known == name).then(|| self.directory.join(name))
    }

    /// Returns the absolute paths of all caches.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.names.iter().map(|name| self.directory.join(name))
    }
}

/// Encoded form of [`SharedCaches`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CacheSet {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) group: Option<u32>,
    #[prost(bytes = "vec", tag = "2")]
    directory: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    names: Vec<String>,
}

impl From<SharedCaches> for CacheSet {
    fn from(SharedCaches { group, directory, names }: SharedCaches) -> Self {
        let directory = directory.as_os_str().as_bytes().to_owned();
        Self { group: group.map(Gid::as_raw), directory, names }
    }
}

impl From<CacheSet> for SharedCaches {
    fn from(CacheSet { group, directory, names }: CacheSet) -> Self {
        let directory = OsStr::from_bytes(&directory).into();
        Self { group: group.map(Gid::from_raw), directory, names }
    }
}

/// Returns true if the text is a single file name and cannot lead to another
/// directory.
pub(crate) fn is_file_name(text: &str) -> bool {
    let path = Path::new(text);
    !text.contains('\0') && path.file_name().is_some_and(|name| name == path.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_file_names_are_accepted() {
        for name in ["a", "a b", "..a", "a-v1.0"] {
            assert!(is_file_name(name), "{name}");
        }
        for text in ["", ".", "..", "a/b", "/a", "a/", "./a", "a\0b"] {
            assert!(!is_file_name(text), "{text:?}");
        }
    }
}
