//! The path of an archive entry in the repository.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use cmp_go::path;
use thiserror::Error;

/// A path inside a repository: relative, clean, without `..`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(PathBuf);

/// The error for a path that leaves the repository.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the path leads out of the repository")]
pub struct Escape;

impl EntryPath {
    /// Resolves `name` against the root by its text alone, as Go's
    /// `filepath.Join` does. A leading `/` is the root.
    pub fn new(name: &[u8]) -> Result<Self, Escape> {
        Self::default().join(name)
    }

    /// Resolves `name` against this path by its text alone.
    pub fn join(&self, name: &[u8]) -> Result<Self, Escape> {
        let mut components = self.components();
        if path::extend(&mut components, name) {
            Ok(Self(path_of(components.join(&b'/'))))
        } else {
            Err(Escape)
        }
    }

    fn components(&self) -> Vec<&[u8]> {
        path::components(self.0.as_os_str().as_bytes()).collect()
    }

    /// The parent directory. The root is its own parent.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// The path is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// The path relative to the root, `.` for the root.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    /// The relative path from the directory `from` to this one.
    #[must_use]
    pub fn relative_to(&self, from: &Self) -> PathBuf {
        path_of(path::relative(&from.components(), &self.components()))
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> EntryPath {
        EntryPath::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn names_are_cleaned_and_absolute_names_start_at_the_root() {
        for (name, clean) in
            [("a//b/./c", "a/b/c"), ("/etc/x", "etc/x"), ("x/../b", "b"), ("a/..", "."), ("", ".")]
        {
            assert_eq!(path(name).as_path(), Path::new(clean), "{name}");
        }
    }

    #[test]
    fn names_above_the_root_are_refused() {
        for name in ["..", "../x", "a/../../b", "/.."] {
            assert_eq!(EntryPath::new(name.as_bytes()), Err(Escape), "{name}");
        }
    }

    #[test]
    fn an_absolute_path_is_below_the_other_one() {
        let join = |name: &str| path("a/b").join(name.as_bytes());
        assert_eq!(join("/x/../y").unwrap(), path("a/b/y"));
        assert_eq!(join("../y").unwrap(), path("a/y"));
        assert_eq!(join("/../y"), Err(Escape));
    }

    #[test]
    fn a_relative_path_goes_through_the_common_directory() {
        for (to, from, way) in [
            ("a/b", "a", "b"),
            ("a", "a/b/c", "../.."),
            ("x/y", "a/b", "../../x/y"),
            ("a", "a", "."),
            ("ab", "a", "../ab"),
        ] {
            assert_eq!(path(to).relative_to(&path(from)), Path::new(way), "{from} to {to}");
        }
    }
}
