//! The application's directory.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use cmp_archive::EntryPath;
use thiserror::Error;

/// The application's directory: relative, and lexically inside the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppPath(PathBuf);

/// The directory is outside the repository. The text is Argo CD's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("illegal appPath: out of workDir bound: {path}")]
pub struct IllegalAppPath {
    path: String,
}

impl AppPath {
    /// Joins a path to the root lexically, as for generate and parameters.
    /// Symbolic links are followed later, when the directory is entered.
    pub(super) fn new(path: &[u8]) -> Result<Self, IllegalAppPath> {
        match EntryPath::new(path) {
            Ok(inside) => Ok(Self(inside.as_path().to_owned())),
            Err(_escape) => {
                Err(IllegalAppPath { path: String::from_utf8_lossy(path).into_owned() })
            }
        }
    }

    /// Takes a path unchanged, as for discovery. The repository is then the root
    /// of the file system, so `..` cannot leave it.
    #[must_use]
    pub(super) fn rooted(path: &[u8]) -> Self {
        Self(PathBuf::from(OsStr::from_bytes(if path.is_empty() { b"." } else { path })))
    }

    /// The path, relative to the repository.
    #[must_use]
    pub(super) fn as_path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_are_cleaned() {
        assert_eq!(AppPath::new(b"./apps/../web/").unwrap().as_path(), Path::new("web"));
        assert_eq!(AppPath::new(b".").unwrap().as_path(), Path::new("."));
        assert_eq!(AppPath::new(b"/web").unwrap().as_path(), Path::new("web"));
    }

    #[test]
    fn paths_outside_are_refused_in_argo_cds_words() {
        let error = AppPath::new(b"a/../../b").unwrap_err().to_string();
        assert!(error.starts_with("illegal appPath: out of workDir bound"), "{error}");
    }

    #[test]
    fn rooted_paths_stay_unchanged() {
        assert_eq!(AppPath::rooted(b"../../b/..").as_path(), Path::new("../../b/.."));
        assert_eq!(AppPath::rooted(b"").as_path(), Path::new("."));
    }
}
