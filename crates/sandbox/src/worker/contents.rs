//! The files in a directory that a plugin may read, as the plugin sees them.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry, FileType, ReadDir},
    io,
    path::{Path, PathBuf},
};

/// Most files and directories to look at. A Secret of 1 MiB rarely has a hundred.
pub(super) const MAX_ENTRIES: usize = 1024;

/// Most directories inside one another. The kubelet makes as many as a path of an item has.
pub(super) const MAX_DEPTH: usize = 16;

/// The link to the current files in a volume of a Secret or ConfigMap.
pub const CURRENT_FILES: &str = "..data";

/// A path in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file, or a link to one.
    File,
    /// Its entries follow.
    Directory,
    /// A link to something else, which is an entry of its own or elsewhere.
    Link,
}

/// Reasons why there is no further entry.
#[derive(Debug)]
pub(super) enum Cut {
    Entries,
    Depth(PathBuf),
    Unreadable(PathBuf, io::Error),
}

/// All entries of a directory, but for sockets, pipes and devices. A volume's own names are
/// left out: what is in them has a name that they do not begin with. After a cut that
/// concerns one directory, the others follow.
#[derive(Debug)]
pub(super) struct Contents {
    top: PathBuf,
    is_volume: bool,
    open: Vec<ReadDir>,
    left: usize,
}

impl Contents {
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let is_volume = fs::symlink_metadata(directory.join(CURRENT_FILES)).is_ok();
        let open = vec![fs::read_dir(directory)?];
        Ok(Self { top: directory.to_owned(), is_volume, open, left: MAX_ENTRIES })
    }

    /// True for a volume of a Secret or ConfigMap.
    pub(super) fn is_volume(&self) -> bool {
        self.is_volume
    }

    fn entry(&mut self, found: &DirEntry) -> Option<Result<Entry, Cut>> {
        if self.is_volume && self.open.len() == 1 && is_reserved(&found.file_name()) {
            return None;
        }
        let path = found.path();
        // One that is gone is no entry.
        let kind = self.kind(&path, found.file_type().ok()?)?;
        let Some(left) = self.left.checked_sub(1) else {
            self.open.clear();
            return Some(Err(Cut::Entries));
        };
        self.left = left;
        if kind == Kind::Directory {
            if self.open.len() == MAX_DEPTH {
                return Some(Err(Cut::Depth(path)));
            }
            match fs::read_dir(&path) {
                Ok(entries) => self.open.push(entries),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => return Some(Err(Cut::Unreadable(path, error))),
            }
        }
        Some(Ok(Entry { path, kind }))
    }

    fn kind(&self, path: &Path, kind: FileType) -> Option<Kind> {
        if !kind.is_symlink() {
            let file = kind.is_file().then_some(Kind::File);
            return file.or_else(|| kind.is_dir().then_some(Kind::Directory));
        }
        match fs::metadata(path) {
            Ok(about) if about.is_file() => Some(Kind::File),
            Ok(about) if about.is_dir() && self.shows(path) => Some(Kind::Directory),
            Ok(_) | Err(_) => Some(Kind::Link),
        }
    }

    /// True for a link to a directory that has no other name here.
    fn shows(&self, link: &Path) -> bool {
        let real = fs::canonicalize(link).unwrap_or_default();
        let below = real.strip_prefix(&self.top).ok();
        let first = below.and_then(|below| below.components().next());
        self.is_volume && first.is_some_and(|first| is_reserved(first.as_os_str()))
    }
}

/// True for names that begin with two dots, which are a mounted volume's own.
pub(super) fn is_reserved(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"..")
}

impl Iterator for Contents {
    type Item = Result<Entry, Cut>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(entries) = self.open.last_mut() {
            let Some(found) = entries.next() else {
                self.open.pop();
                continue;
            };
            let entry = found.ok().and_then(|found| self.entry(&found));
            if entry.is_some() {
                return entry;
            }
        }
        None
    }
}
