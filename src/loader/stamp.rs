//! Detects changes of a directory.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cmp_sandbox::CURRENT_FILES;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

/// Most entries of a plugins directory.
pub(super) const MAX_ENTRIES: usize = 1000;

/// Time without changes after which a directory is not being filled any more.
pub(super) const SETTLED: Duration = Duration::from_secs(10);

/// An open directory with its stamp.
#[derive(Debug)]
pub(super) struct Opened {
    /// The directory with the files: in a ConfigMap volume, the target of its link.
    pub(super) files: OwnedFd,
    /// The root of a ConfigMap volume; `None` for other directories.
    pub(super) volume: Option<OwnedFd>,
    /// The stamp at the time of opening.
    pub(super) stamp: Stamp,
}

/// State of a directory. If two stamps are equal, nothing changed between them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Device and inode, because another directory can take the same path.
    directory: (u64, u64),
    content: Content,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// A ConfigMap volume: the target and the identity of its link. kubelet
    /// changes the content only by renaming a new link over it.
    Volume(PathBuf, Mark),
    /// Any other directory: each name and its file.
    Plain(Vec<(OsString, Option<Mark>)>),
}

/// Identity of a file: device, inode, size, and the times of its last modification
/// and status change in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
struct Mark(u64, u64, u64, i128, i128);

impl Opened {
    /// Opens a directory, following all links of its path.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let root = openat(CWD, path, directory_flags(), Mode::empty())?;
        let about = fstat(&root)?;
        let directory = (about.st_dev, about.st_ino);
        let Some(target) = data(&root)? else {
            let content = Content::Plain(entries(&root)?);
            return Ok(Self { files: root, volume: None, stamp: Stamp { directory, content } });
        };
        let link = statat(&root, CURRENT_FILES, AtFlags::SYMLINK_NOFOLLOW)?;
        let files = openat(&root, &target, directory_flags() | OFlags::NOFOLLOW, Mode::empty())?;
        let content = Content::Volume(target, Mark::of(&link));
        Ok(Self { files, volume: Some(root), stamp: Stamp { directory, content } })
    }
}

/// True if a directory is complete: it is a ConfigMap volume, which changes in one
/// step, or nothing in it has changed for some time. One that is missing is complete.
pub(super) fn is_complete(path: &Path, now: SystemTime) -> bool {
    let about = fs::metadata(path).map(|about| nanoseconds(about.ctime(), about.ctime_nsec()));
    let (changed, content) = match (about, Opened::new(path)) {
        (Ok(changed), Ok(opened)) => (changed, opened.stamp.content),
        (Err(error), Err(_)) => return error.kind() == io::ErrorKind::NotFound,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => return false,
    };
    let Content::Plain(entries) = content else { return true };
    let quiet = now.checked_sub(SETTLED).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    let Some(quiet) = quiet.and_then(|since| i128::try_from(since.as_nanos()).ok()) else {
        return false;
    };
    let is_old = |mark: &Option<Mark>| mark.as_ref().is_some_and(|mark| mark.4 < quiet);
    changed < quiet && entries.iter().all(|(_, mark)| is_old(mark))
}

/// Flags for opening a directory.
pub(super) fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Target and inode of a ConfigMap volume's link in a directory, if there is one.
pub(super) fn switch(directory: &Path) -> Option<(PathBuf, u64)> {
    let link = directory.join(CURRENT_FILES);
    Some((fs::read_link(&link).ok()?, fs::symlink_metadata(&link).ok()?.ino()))
}

fn data(root: &OwnedFd) -> io::Result<Option<PathBuf>> {
    let target = match readlinkat(root, CURRENT_FILES, Vec::new()) {
        Ok(target) => PathBuf::from(target.to_string_lossy().into_owned()),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut components = target.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(_)), None) => Ok(Some(target)),
        _ => Err(io::Error::other("its link `..data` leads out of the directory")),
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

/// The names in a directory, sorted.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_complete_once_nothing_changes_in_it() {
        // Everything below happens within minutes after it.
        let began = SystemTime::now();
        let root = tempfile::tempdir().unwrap();
        let is_complete_after =
            |path: &Path, seconds| is_complete(path, began + Duration::from_secs(seconds));
        assert!(is_complete_after(&root.path().join("missing"), 0));
        for name in [None, Some("a.yaml")] {
            if let Some(name) = name {
                fs::write(root.path().join(name), "").unwrap();
            }
            assert!(!is_complete_after(root.path(), 0));
            assert!(!is_complete_after(root.path(), 5));
            assert!(is_complete_after(root.path(), 300));
        }
        fs::create_dir(root.path().join("..2026_01")).unwrap();
        symlink("..2026_01", root.path().join("..data")).unwrap();
        assert!(is_complete_after(root.path(), 0), "a ConfigMap volume");
    }
}
