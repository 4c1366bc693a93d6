//! A repository being written: every path stays below its root, whatever links
//! say.

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

/// Links followed on one path; as many as Go's `filepath.EvalSymlinks` follows.
const MAX_LINKS: usize = 255;

/// Mode of directories that the archive does not give one.
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

/// Why something is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotMade {
    /// A directory above it is not.
    Above(Errno),
    /// It is not itself.
    Itself(Errno),
}

/// Where a path really leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// To this, without any link on the way.
    Path(EntryPath),
    /// To nothing that is there.
    Missing,
    /// Out of the tree.
    Outside,
}

impl RepositoryTree {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root, implied: 0 }
    }

    /// Opens a file for writing, made or emptied, with the directories above it.
    pub(super) fn create(&mut self, path: &EntryPath, mode: Mode) -> Result<File, NotMade> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        let opened = match self.open(path.as_path(), flags, mode) {
            Ok(file) => Ok(file),
            Err(Errno::EXDEV) => Err(Errno::EXDEV),
            // What is wrong above is told first, and most often it is only missing.
            Err(_) => {
                self.directories(&path.parent()).map_err(NotMade::Above)?;
                self.open(path.as_path(), flags, mode)
            }
        };
        opened.map(File::from).map_err(NotMade::Itself)
    }

    /// Makes a directory and those above it; whether it was made. One that is
    /// there stays as it is.
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

    /// Makes all directories of a path, from the root down.
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

    /// Makes a directory in the one above it; whether it was made.
    fn make(&self, above: &OwnedFd, path: &EntryPath, mode: Mode) -> Result<bool, Errno> {
        let name = path.as_path().file_name().ok_or(Errno::EEXIST)?;
        match mkdirat(above, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) if self.enter(path).is_ok() => Ok(false),
            // In Go's words: there is something else, or a link to nothing.
            Err(Errno::EEXIST) => match self.open(path.as_path(), OFlag::O_PATH, Mode::empty()) {
                Ok(_) => Err(Errno::ENOTDIR),
                Err(_) => Err(Errno::EEXIST),
            },
            Err(error) => Err(error),
        }
    }

    /// Directories made because an entry's name implied them.
    pub(super) fn implied(&self) -> u64 {
        self.implied
    }

    /// Gives a directory its mode.
    pub(super) fn permit(&self, path: &EntryPath, mode: Mode) -> Result<(), Errno> {
        let directory = self.open(path.as_path(), OFlag::O_DIRECTORY, Mode::empty())?;
        fchmod(directory, mode)
    }

    /// Makes a link. The directory it is in has to be there.
    pub(super) fn link(&self, path: &EntryPath, value: &Path) -> Result<(), Errno> {
        let parent = self.enter(&path.parent())?;
        let name = path.as_path().file_name().ok_or(Errno::EEXIST)?;
        symlinkat(value, &parent, name)
    }

    /// Whether there is something of this name, be it a link to nothing.
    pub(super) fn has(&self, path: &EntryPath) -> bool {
        self.open(path.as_path(), OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty()).is_ok()
    }

    /// Follows every link on a path. The work is bounded by [`MAX_LINKS`].
    pub(super) fn real(&self, path: &EntryPath) -> Result<Resolved, Errno> {
        let mut ahead: VecDeque<OsString> = path.as_path().iter().map(OsStr::to_owned).collect();
        let mut at = EntryPath::default();
        let mut links = 0;
        while let Some(component) = ahead.pop_front() {
            let Ok(next) = at.join(component.as_bytes()) else { return Ok(Resolved::Outside) };
            let kind = match fstatat(&self.root, next.as_path(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(found) => SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT,
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

    /// The kernel follows links, but not out of the tree.
    fn open(&self, path: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        beneath::open(&self.root, path, how)
    }
}

/// The mode of a directory, from the bits in an archive.
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
    fn directories_above_a_file_are_made_and_counted() {
        let (directory, mut tree) = tree();
        tree.create(&path("a/b/c"), Mode::S_IRWXU).unwrap();
        assert!(directory.path().join("a/b/c").is_file());
        assert_eq!(tree.directory(&path("a/b/d/e"), DIRECTORY), Ok(true));
        assert_eq!(tree.directory(&path("a/b"), DIRECTORY), Ok(false));
        assert_eq!(tree.implied(), 3);
    }

    #[test]
    fn nothing_is_made_behind_a_link_that_leaves_the_tree() {
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
    fn what_is_in_the_way_of_a_directory_is_told_as_go_tells_it() {
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
    fn links_are_followed_to_where_they_really_lead() {
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
