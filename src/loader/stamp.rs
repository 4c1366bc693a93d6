//! By what it is known that a directory has not changed.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

/// Name of the link that a ConfigMap volume is switched with.
pub(super) const DATA: &str = "..data";

/// Most entries of a directory that are looked at.
pub(super) const MAX_ENTRIES: usize = 1000;

/// A directory that is held open, and what it showed.
#[derive(Debug)]
pub(super) struct Opened {
    /// What to read files from: behind the link of a ConfigMap volume.
    pub(super) files: OwnedFd,
    /// The root of a ConfigMap volume.
    pub(super) volume: Option<OwnedFd>,
    /// What it showed.
    pub(super) stamp: Stamp,
}

/// What a directory showed. Two that are equal have nothing between them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which directory it was: another may have its name by now.
    directory: (u64, u64),
    shown: Shown,
}

#[derive(Debug, PartialEq, Eq)]
enum Shown {
    /// A ConfigMap volume: where its link leads, and which link it is. kubelet
    /// renames a new one over it, and nothing else changes what is behind.
    Volume(PathBuf, Mark),
    /// Any other directory: each name and the file behind it.
    Plain(Vec<(OsString, Option<Mark>)>),
}

/// A file: device, inode, size, and nanoseconds of its last two changes.
#[derive(Debug, PartialEq, Eq)]
struct Mark(u64, u64, u64, i128, i128);

impl Opened {
    /// Opens a directory, by whatever links its path has.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let root = openat(CWD, path, directory_flags(), Mode::empty())?;
        let about = fstat(&root)?;
        let directory = (about.st_dev, about.st_ino);
        let Some(target) = data(&root)? else {
            let shown = Shown::Plain(entries(&root)?);
            return Ok(Self { files: root, volume: None, stamp: Stamp { directory, shown } });
        };
        let link = statat(&root, DATA, AtFlags::SYMLINK_NOFOLLOW)?;
        let files = openat(&root, &target, directory_flags() | OFlags::NOFOLLOW, Mode::empty())?;
        let shown = Shown::Volume(target, Mark::of(&link));
        Ok(Self { files, volume: Some(root), stamp: Stamp { directory, shown } })
    }
}

/// For directories that are listed.
pub(super) fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Where the link of a ConfigMap volume beside a file leads, if there is one.
pub(super) fn switch(directory: &Path) -> Option<(PathBuf, u64)> {
    let link = directory.join(DATA);
    Some((fs::read_link(&link).ok()?, fs::symlink_metadata(&link).ok()?.ino()))
}

fn data(root: &OwnedFd) -> io::Result<Option<PathBuf>> {
    let target = match readlinkat(root, DATA, Vec::new()) {
        Ok(target) => PathBuf::from(target.to_string_lossy().into_owned()),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut components = target.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(_)), None) => Ok(Some(target)),
        _ => Err(io::Error::other("its link ..data leads out of it")),
    }
}

fn entries(root: &OwnedFd) -> io::Result<Vec<(OsString, Option<Mark>)>> {
    let marked = |name: OsString| {
        let about = statat(root, &name, AtFlags::empty())
            .or_else(|_dangling| statat(root, &name, AtFlags::SYMLINK_NOFOLLOW));
        (name, about.ok().as_ref().map(Mark::of))
    };
    Ok(names(root.as_fd())?.into_iter().map(marked).collect())
}

/// Names in a directory, sorted.
pub(super) fn names(directory: rustix::fd::BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
        if names.len() > MAX_ENTRIES {
            return Err(crowded());
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) fn crowded() -> io::Error {
    io::Error::other(format!("it has more than {MAX_ENTRIES} entries"))
}

impl Mark {
    fn of(about: &Stat) -> Self {
        let changed = nanoseconds(about.st_ctime, about.st_ctime_nsec);
        let modified = nanoseconds(about.st_mtime, about.st_mtime_nsec);
        let size = u64::try_from(about.st_size).unwrap_or_default();
        Self(about.st_dev, about.st_ino, size, modified, changed)
    }
}

fn nanoseconds(seconds: i64, rest: impl Into<i128>) -> i128 {
    i128::from(seconds) * 1_000_000_000 + rest.into()
}
