//! Writes a repository. No path can leave its root, whatever links exist.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use cmp_archive::EntryPath;
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, readlinkat},
    sys::stat::{Mode, SFlag, fchmod, fstatat, mkdirat},
    unistd::symlinkat,
};

use super::beneath;
use crate::kernel::entries::kind;

/// Most links to follow on one path, as in Go's `filepath.EvalSymlinks`.
const MAX_LINKS: usize = 255;

/// Mode of directories whose mode the archive does not set.
const DIRECTORY: Mode = Mode::S_IRWXU
    .union(Mode::S_IRGRP)
    .union(Mode::S_IXGRP)
    .union(Mode::S_IROTH)
    .union(Mode::S_IXOTH);

/// The root of a repository.
#[derive(Debug)]
pub(super) struct RepositoryTree {
    root: OwnedFd,
    implied: u64,
}

/// Reasons why an entry was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotMade {
    /// A parent directory could not be created.
    Above(Errno),
    /// The entry itself could not be created.
    Itself(Errno),
}

/// The result of resolving all links of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// This path, which has no links.
    Path(EntryPath),
    /// Something on the path does not exist.
    Missing,
    /// The path leaves the repository.
    Outside,
}

impl RepositoryTree {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root, implied: 0 }
    }

    /// Creates or truncates a file, and creates its parent directories.
    pub(super) fn create(&mut self, path: &EntryPath, mode: Mode) -> Result<File, NotMade> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        let opened = match self.open(path.as_path(), flags, mode) {
            Ok(file) => Ok(file),
            Err(Errno::EXDEV) => Err(Errno::EXDEV),
            // Errors of the parents take precedence. Usually they are only
            // missing.
            Err(_) => {
                self.directories(&path.parent()).map_err(NotMade::Above)?;
                self.open(path.as_path(), flags, mode)
            }
        };
        opened.map(File::from).map_err(NotMade::Itself)
    }

    /// Creates a directory and its parents. Returns true if it is new. An
    /// existing directory stays unchanged.
    pub(super) fn directory(&mut self, path: &EntryPath, mode: Mode) -> Result<bool, NotMade> {
        if path.is_root() {
            return Ok(false);
        }
        let parent = match self.enter(&path.parent()) {
            Ok(parent) => parent,
            Err(Errno::EXDEV) => return Err(NotMade::Above(Errno::EXDEV)),
            Err(_) => {
                self.directories(&path.parent()).map_err(NotMade::Above)?;
                self.enter(&path.parent()).map_err(NotMade::Above)?
            }
        };
        self.make(&parent, path, mode).map_err(NotMade::Itself)
    }

    /// Creates all directories of a path, from the root down.
    fn directories(&mut self, path: &EntryPath) -> Result<(), Errno> {
        let mut at = EntryPath::default();
        if path.is_root() {
            return Ok(());
        }
        for component in path.as_path() {
            let above = self.enter(&at)?;
            at = at.join(component.as_bytes()).map_err(|_never| Errno::EXDEV)?;
            self.implied += u64::from(self.make(&above, &at, DIRECTORY)?);
        }
        Ok(())
    }

    /// Creates a directory in its parent. Returns true if it is new.
    fn make(&self, above: &OwnedFd, path: &EntryPath, mode: Mode) -> Result<bool, Errno> {
        let name = path.as_path().file_name().ok_or(Errno::EEXIST)?;
        match mkdirat(above, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) if self.enter(path).is_ok() => Ok(false),
            // Go returns these errors for another kind of file and for a link
            // to nothing.
            Err(Errno::EEXIST) => match self.open(path.as_path(), OFlag::O_PATH, Mode::empty()) {
                Ok(_) => Err(Errno::ENOTDIR),
                Err(_) => Err(Errno::EEXIST),
            },
            Err(error) => Err(error),
        }
    }

    /// Number of directories created only because an entry's name implies them.
    pub(super) fn implied(&self) -> u64 {
        self.implied
    }

    /// Sets a directory's mode.
    pub(super) fn permit(&self, path: &EntryPath, mode: Mode) -> Result<(), Errno> {
        let directory = self.open(path.as_path(), OFlag::O_DIRECTORY, Mode::empty())?;
        fchmod(directory, mode)
    }

    /// Creates a link. Its directory must exist.
    pub(super) fn link(&self, path: &EntryPath, value: &Path) -> Result<(), Errno> {
        let parent = self.enter(&path.parent())?;
        let name = path.as_path().file_name().ok_or(Errno::EEXIST)?;
        symlinkat(value, &parent, name)
    }

    /// Returns true if the name exists, even as a link to nothing.
    pub(super) fn has(&self, path: &EntryPath) -> bool {
        self.open(path.as_path(), OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty()).is_ok()
    }

    /// Resolves every link on a path, at most [`MAX_LINKS`].
    pub(super) fn real(&self, path: &EntryPath) -> Result<Resolved, Errno> {
        let mut ahead: VecDeque<OsString> = path.as_path().iter().map(OsStr::to_owned).collect();
        let mut at = EntryPath::default();
        let mut links = 0;
        while let Some(component) = ahead.pop_front() {
            let Ok(next) = at.join(component.as_bytes()) else { return Ok(Resolved::Outside) };
            let kind = match fstatat(&self.root, next.as_path(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(found) => kind(&found),
                Err(Errno::ENOENT) => return Ok(Resolved::Missing),
                Err(error) => return Err(error),
            };
            if kind != SFlag::S_IFLNK {
                at = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::ELOOP);
            }
            let value = readlinkat(&self.root, next.as_path())?.into_vec();
            for part in value.split(|byte| *byte == b'/').rev() {
                ahead.push_front(OsStr::from_bytes(part).to_owned());
            }
        }
        Ok(Resolved::Path(at))
    }

    fn enter(&self, path: &EntryPath) -> Result<OwnedFd, Errno> {
        self.open(path.as_path(), OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty())
    }

    /// The kernel follows links, but not out of the repository.
    fn open(&self, path: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        beneath::open(&self.root, path, how)
    }
}

/// Mode of a directory, from the bits in an archive.
pub(super) fn directory_mode(preserved: Option<u32>) -> Mode {
    preserved.map_or(DIRECTORY, |bits| Mode::from_bits_truncate(bits & 0o777))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn tree() -> (tempfile::TempDir, RepositoryTree) {
        let directory = tempfile::tempdir().unwrap();
        let root = File::open(directory.path()).unwrap().into();
        (directory, RepositoryTree::new(root))
    }

    fn path(name: &str) -> EntryPath {
        EntryPath::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn parents_of_a_file_are_created_and_counted() {
        let (directory, mut tree) = tree();
        tree.create(&path("a/b/c"), Mode::S_IRWXU).unwrap();
        assert!(directory.path().join("a/b/c").is_file());
        assert_eq!(tree.directory(&path("a/b/d/e"), DIRECTORY), Ok(true));
        assert_eq!(tree.directory(&path("a/b"), DIRECTORY), Ok(false));
        assert_eq!(tree.implied(), 3);
    }

    #[test]
    fn nothing_is_created_behind_a_link_that_leaves_the_tree() {
        let (directory, mut tree) = tree();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), directory.path().join("out")).unwrap();
        let file = tree.create(&path("out/x"), Mode::S_IRWXU).unwrap_err();
        assert_eq!(file, NotMade::Itself(Errno::EXDEV));
        let made = tree.directory(&path("out/d"), DIRECTORY);
        assert_eq!(made, Err(NotMade::Above(Errno::EXDEV)));
        assert_eq!(tree.link(&path("out/l"), Path::new("x")).unwrap_err(), Errno::EXDEV);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn obstacles_have_gos_error_texts() {
        let (_directory, mut tree) = tree();
        tree.create(&path("f"), Mode::S_IRWXU).unwrap();
        tree.link(&path("nowhere"), Path::new("no")).unwrap();
        tree.link(&path("circle"), Path::new("circle")).unwrap();
        tree.link(&path("below"), Path::new("f/no")).unwrap();
        let long = "x".repeat(256);
        for (name, above) in [
            ("f/g", Errno::ENOTDIR),
            ("nowhere/g", Errno::EEXIST),
            ("circle/g", Errno::EEXIST),
            ("below/g", Errno::EEXIST),
            (&format!("{long}/g"), Errno::ENAMETOOLONG),
        ] {
            let file = tree.create(&path(name), Mode::S_IRWXU).unwrap_err();
            assert_eq!(file, NotMade::Above(above), "{name}");
            assert_eq!(
                tree.directory(&path(name), DIRECTORY),
                Err(NotMade::Above(above)),
                "{name}"
            );
        }
        assert_eq!(tree.directory(&path("f"), DIRECTORY), Err(NotMade::Itself(Errno::ENOTDIR)));
        for (name, itself) in [("below", Errno::ENOTDIR), ("circle", Errno::ELOOP)] {
            let file = tree.create(&path(name), Mode::S_IRWXU).unwrap_err();
            assert_eq!(file, NotMade::Itself(itself), "{name}");
        }
    }

    #[test]
    fn all_links_of_a_path_are_resolved() {
        let (_directory, mut tree) = tree();
        tree.create(&path("real/file"), Mode::S_IRWXU).unwrap();
        tree.link(&path("one"), Path::new("real")).unwrap();
        tree.link(&path("real/two"), Path::new("../one/file")).unwrap();
        tree.link(&path("out"), Path::new("real/../../x")).unwrap();
        tree.link(&path("loop"), Path::new("loop")).unwrap();
        assert_eq!(tree.real(&path("one/two")), Ok(Resolved::Path(path("real/file"))));
        assert_eq!(tree.real(&path("one/none")), Ok(Resolved::Missing));
        assert_eq!(tree.real(&path("out")), Ok(Resolved::Outside));
        assert_eq!(tree.real(&path("loop")), Err(Errno::ELOOP));
    }
}
