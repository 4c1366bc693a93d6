//! Where an entry of an archive belongs.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A path below the root of a repository: relative, clean, without `..`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(PathBuf);

/// A path that leaves the root it was relative to.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the path leads out of the repository")]
pub struct Escape;

impl EntryPath {
    /// Resolves `name` lexically against the root, as joining and cleaning does
    /// in Go: a leading `/` means the root.
    pub fn new(name: &[u8]) -> Result<Self, Escape> {
        Self::default().join(name)
    }

    /// Resolves `name` lexically against this path.
    pub fn join(&self, name: &[u8]) -> Result<Self, Escape> {
        let mut path = self.0.clone();
        for component in name.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => {
                    if !path.pop() {
                        return Err(Escape);
                    }
                }
                name => path.push(OsStr::from_bytes(name)),
            }
        }
        Ok(Self(path))
    }

    /// The directory the entry is in; the root for the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// Whether this is the root itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// How many directories lie above.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.components().count()
    }

    /// The path, relative to the root; `.` for the root.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    /// The way from the directory `from` to here.
    #[must_use]
    pub fn relative_to(&self, from: &Self) -> PathBuf {
        let mut to = self.0.components().peekable();
        let mut from = from.0.components().peekable();
        while to.peek().is_some() && to.peek() == from.peek() {
            to.next();
            from.next();
        }
        let mut way: PathBuf = from.map(|_| "..").collect();
        way.extend(to);
        if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> EntryPath {
        EntryPath::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn names_are_cleaned_and_absolute_ones_re_rooted() {
        for (name, clean) in
            [("a//b/./c", "a/b/c"), ("/etc/x", "etc/x"), ("x/../b", "b"), ("a/..", "."), ("", ".")]
        {
            assert_eq!(path(name).as_path(), Path::new(clean), "{name}");
        }
    }

    #[test]
    fn names_above_the_root_escape() {
        for name in ["..", "../x", "a/../../b", "/.."] {
            assert_eq!(EntryPath::new(name.as_bytes()), Err(Escape), "{name}");
        }
    }

    #[test]
    fn the_way_between_two_paths_goes_over_what_they_share() {
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
