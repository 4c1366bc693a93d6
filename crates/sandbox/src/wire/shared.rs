//! Directories that requests of one plugin share.

use std::path::{Path, PathBuf};

use nix::unistd::Gid;

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
