//! Writes a repository. No path can leave its root, whatever links exist.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use cmp_archive::{EntryPath, MAX_PATH_BYTES};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag},
    sys::stat::{Mode, fchmod, mkdirat},
    unistd::symlinkat,
};

use super::beneath;

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
            // The first is another kind of file, the second a link to nothing.
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

    /// Opens the directory in which a link is to be, and creates what is missing of it.
    /// `ELOOP` says that its path leads through another link: the relative value of the new
    /// link would start at another directory.
    pub(super) fn above_link(&mut self, path: &EntryPath) -> Result<OwnedFd, Errno> {
        let parent = path.parent();
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC);
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
        match beneath::open(&self.root, parent.as_path(), how.resolve(resolve)) {
            Err(Errno::ENOENT) => {
                self.directories(&parent)?;
                self.enter(&parent)
            }
            opened => opened,
        }
    }

    /// Creates a link in its directory.
    pub(super) fn link(above: &OwnedFd, path: &EntryPath, value: &Path) -> Result<(), Errno> {
        let name = path.as_path().file_name().ok_or(Errno::EEXIST)?;
        symlinkat(value, above, name)
    }

    /// Returns true if the path leads to something. Links are followed.
    pub(super) fn has(&self, path: &EntryPath) -> Result<bool, Errno> {
        // No entry has such a path.
        let is_too_long = path.as_path().as_os_str().len() > MAX_PATH_BYTES;
        match self.open(path.as_path(), OFlag::O_PATH, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(Errno::ENAMETOOLONG) if is_too_long => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn enter(&self, path: &EntryPath) -> Result<OwnedFd, Errno> {
        self.open(path.as_path(), OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty())
    }

    /// The kernel follows links, but not out of the repository.
    fn open(&self, path: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode);
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        beneath::open(&self.root, path, how.resolve(resolve))
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

    fn link(tree: &mut RepositoryTree, name: &str, value: &str) {
        let above = tree.above_link(&path(name)).unwrap();
        RepositoryTree::link(&above, &path(name), Path::new(value)).unwrap();
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
        assert_eq!(tree.above_link(&path("out/l")).unwrap_err(), Errno::ELOOP);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn obstacles_have_their_own_errors() {
        let (_directory, mut tree) = tree();
        tree.create(&path("f"), Mode::S_IRWXU).unwrap();
        link(&mut tree, "nowhere", "no");
        link(&mut tree, "circle", "circle");
        link(&mut tree, "below", "f/no");
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
    fn a_link_gets_its_parents_and_none_of_them_is_a_link() {
        let (directory, mut tree) = tree();
        link(&mut tree, "a/b/one", "../../real");
        assert!(directory.path().join("a/b/one").is_symlink());
        assert_eq!(tree.implied(), 2);
        tree.directory(&path("real"), DIRECTORY).unwrap();
        for below in ["a/b/one/two", "a/b/one/missing/two"] {
            assert_eq!(tree.above_link(&path(below)).unwrap_err(), Errno::ELOOP, "{below}");
        }
        tree.create(&path("real/file"), Mode::S_IRWXU).unwrap();
        assert_eq!(tree.above_link(&path("real/file/l")).unwrap_err(), Errno::ENOTDIR);
    }

    #[test]
    fn a_path_leads_through_links_to_something_or_to_nothing() {
        let (_directory, mut tree) = tree();
        tree.create(&path("real/file"), Mode::S_IRWXU).unwrap();
        link(&mut tree, "one", "real");
        link(&mut tree, "real/two", "../one/file");
        link(&mut tree, "loop", "loop");
        link(&mut tree, "top", ".");
        for there in ["one/two", "top/top/one", "."] {
            assert_eq!(tree.has(&path(there)), Ok(true), "{there}");
        }
        for missing in ["one/none", &"no/".repeat(2000)] {
            assert_eq!(tree.has(&path(missing)), Ok(false), "{missing}");
        }
        assert_eq!(tree.has(&path("loop")), Err(Errno::ELOOP));
        assert_eq!(tree.has(&path("one/file/x")), Err(Errno::ENOTDIR));
    }
}
