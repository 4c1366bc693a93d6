//! Versions of files that are replaced.
//!
//! The kubelet replaces the files of a volume by the link `..data`. A rule of Landlock is for
//! the file to which a name led, so the same name is closed afterwards.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::ReadPath;

/// Attempts to get access to files that are replaced meanwhile.
pub(in crate::worker) const ATTEMPTS: u32 = 3;

/// A path to read, and the file or directory to which it led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::worker) struct Version {
    name: PathBuf,
    found: Option<(u64, u64)>,
}

impl Version {
    /// The versions of paths, without those below a directory to read: what is new there
    /// can be read, too.
    pub(in crate::worker) fn all(paths: &[ReadPath]) -> Vec<Self> {
        let directories: Vec<_> =
            paths.iter().map(|path| &path.real).filter(|path| path.is_dir()).collect();
        let is_below = |path: &ReadPath| {
            directories.iter().any(|top| path.name.starts_with(top) && path.name != **top)
        };
        let own = paths.iter().filter(|path| !is_below(path));
        own.map(|path| Self { name: path.name.clone(), found: identity(&path.real).ok() }).collect()
    }

    /// The name if it leads to something else now.
    pub(in crate::worker) fn replaced(&self) -> Option<&Path> {
        let is_same = match identity(&self.name) {
            Ok(now) => Some(now) == self.found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.found.is_none(),
            // This process cannot follow it, and neither can a command.
            Err(_) => true,
        };
        (!is_same).then_some(&self.name)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|about| (about.dev(), about.ino()))
}

#[cfg(test)]
mod tests;
