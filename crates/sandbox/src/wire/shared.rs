//! Directories that requests of one plugin share, as workers and cleaners see
//! them.

use std::path::{Path, PathBuf};

use nix::unistd::Gid;

/// The caches of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedCaches {
    /// Whoever has this group may enter; `None` where everybody is one user.
    pub(crate) group: Option<Gid>,
    /// The directory that holds them.
    pub(crate) directory: PathBuf,
    /// Their names in it.
    pub(crate) names: Vec<String>,
}

impl SharedCaches {
    /// The absolute path of a cache, if there is one of that name.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.names.iter().any(|known| known == name).then(|| self.directory.join(name))
    }

    /// The absolute paths of all.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.names.iter().map(|name| self.directory.join(name))
    }
}

/// Whether a text is the name of an entry of a directory, and of that one only.
pub(crate) fn is_file_name(text: &str) -> bool {
    let path = Path::new(text);
    !text.contains('\0') && path.file_name().is_some_and(|name| name == path.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_leads_nowhere_else() {
        for name in ["a", "a b", "..a", "a-v1.0"] {
            assert!(is_file_name(name), "{name}");
        }
        for text in ["", ".", "..", "a/b", "/a", "a/", "./a", "a\0b"] {
            assert!(!is_file_name(text), "{text:?}");
        }
    }
}
