//! The directory of bundles. Only its owner can enter it.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use cmp_sandbox::{drop_privileges, is_full};
use rustix::process::geteuid;
use thiserror::Error;

use crate::{
    evidence::{DIRECTORY, MAX_BUNDLES},
    own_directory::{self, DIRECTORY_MODE, FILE_MODE, NotOwn, close},
};

/// Ending of a bundle, and of one that is being written.
const SUFFIX: &str = ".tar";
const UNFINISHED: &str = ".part";

/// The directory cannot be used.
#[derive(Debug, Error)]
pub enum NoDirectory {
    /// The operating system refused.
    #[error("{path}: {error}: --keep-failed needs a --work-dir in which UID {uid} can write")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
        /// The supervisor's UID.
        uid: u32,
    },
    /// It is a link or a file, or it belongs to somebody else.
    #[error("{path} is no directory of UID {uid}: remove it, or set --keep-failed 0")]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The supervisor's UID.
        uid: u32,
    },
}

/// A directory with a bound on the number and bytes of its bundles.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    most: usize,
}

/// A bundle in the directory.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its time in milliseconds.
    at: u64,
    /// The ID of its request.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Directory {
    /// Creates the directory for the supervisor's UID. Call this while the process may
    /// still change owners.
    pub fn create(path: PathBuf, most: usize, uid: u32) -> Result<Self, NoDirectory> {
        match own_directory::create(&path, uid) {
            Ok(()) => Ok(Self { path, most }),
            Err(NotOwn::Io(error)) => Err(NoDirectory::Io { path, error, uid }),
            Err(NotOwn::Foreign(uid)) => Err(NoDirectory::Foreign { path, uid }),
        }
    }

    /// The directory of a supervisor with this work directory, to read.
    #[must_use]
    pub fn below(work_dir: &Path) -> Self {
        Self { path: work_dir.join(DIRECTORY), most: 0 }
    }

    /// Becomes the owner for good if root may not read the directory: containers often
    /// have no `CAP_DAC_OVERRIDE`. Call this before any thread is started.
    pub fn become_owner(&self) {
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        if !geteuid().is_root() || !fs::read_dir(&self.path).is_err_and(is_refused) {
            return;
        }
        if let Ok(about) = fs::symlink_metadata(&self.path) {
            // If this fails, reading does too, with an error that says more.
            let _ = drop_privileges(about.uid());
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bundles, the oldest first.
    pub fn list(&self) -> io::Result<Vec<Stored>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(SUFFIX).and_then(|name| name.split_once('_')) else {
                continue;
            };
            let bytes = match entry.metadata() {
                // It was removed a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about?.len(),
            };
            let at = id.0.parse().unwrap_or_default();
            all.push(Stored { at, id: id.1.to_owned(), path: entry.path(), bytes });
        }
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Removes the oldest bundles until number and bytes are within their bounds, and
    /// writes one; on a full volume, further ones are removed. `at` is its time in
    /// milliseconds.
    pub fn keep(&self, at: u64, id: &str, content: &[u8]) -> io::Result<()> {
        match close(&self.path) {
            // Somebody has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(DIRECTORY_MODE).create(&self.path)?;
            }
            closed => closed?,
        }
        self.make_room(content.len() as u64)?;
        let older = self.list()?;
        // If the clock was set back, this one would be the oldest, and go first.
        let at = older.last().map_or(at, |newest| at.max(newest.at.saturating_add(1)));
        let bytes: u64 = older.iter().map(|stored| stored.bytes).sum();
        // If they cannot make room for it, they are worth more.
        let is_room = bytes >= content.len() as u64;
        let mut older = older.into_iter();
        loop {
            let written = self.write(at, id, content);
            let is_full = written.as_ref().is_err_and(is_full);
            let Some(oldest) = older.next().filter(|_| is_full && is_room) else { return written };
            fs::remove_file(oldest.path)?;
        }
    }

    fn write(&self, at: u64, id: &str, content: &[u8]) -> io::Result<()> {
        let name = format!("{at:015}_{id}");
        let part = self.path.join(format!("{name}{UNFINISHED}"));
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        let written = file.write_all(content);
        let whole = self.path.join(format!("{name}{SUFFIX}"));
        let written = written.and_then(|()| fs::rename(&part, whole));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }

    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let all = self.list()?;
        let mut total = bytes + all.iter().map(|stored| stored.bytes).sum::<u64>();
        for (age, stored) in (0..all.len()).rev().zip(&all) {
            if age + 1 < self.most && total <= MAX_BUNDLES {
                break;
            }
            fs::remove_file(&stored.path)?;
            total -= stored.bytes;
        }
        Ok(())
    }

    /// Removes bundles that were not finished, and those above the number.
    pub fn tidy(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(path)?;
            }
        }
        let all = self.list()?;
        let over = all.len().saturating_sub(self.most);
        all.iter().take(over).try_for_each(|stored| fs::remove_file(&stored.path))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    fn directory(root: &Path, most: usize) -> Directory {
        let uid = geteuid().as_raw();
        Directory::create(root.join("failed"), most, uid).unwrap()
    }

    fn keep(directory: &Directory, number: u64, bytes: usize) {
        let id = format!("x-{number}");
        directory.keep(number, &id, &vec![0; bytes]).unwrap();
    }

    fn ids(directory: &Directory) -> Vec<String> {
        directory.list().unwrap().into_iter().map(|stored| stored.id).collect()
    }

    #[test]
    fn only_the_owner_can_enter() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), 1);
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        keep(&directory, 1, 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(directory.path()), 0o700);
        assert_eq!(mode(&directory.list().unwrap()[0].path), 0o600);
    }

    #[test]
    fn a_directory_that_was_removed_is_created_again() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), 1);
        fs::remove_dir(directory.path()).unwrap();
        keep(&directory, 1, 1);
        let mode = fs::metadata(directory.path()).unwrap().mode() & 0o7777;
        assert_eq!((ids(&directory).len(), mode), (1, DIRECTORY_MODE));
    }

    #[test]
    fn the_oldest_go_first_by_number_and_by_bytes() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), 3);
        (1..=5).for_each(|number| keep(&directory, number, 10));
        assert_eq!(ids(&directory), ["x-3", "x-4", "x-5"]);
        keep(&directory, 6, usize::try_from(MAX_BUNDLES).unwrap() - 15);
        assert_eq!(ids(&directory), ["x-5", "x-6"]);
    }

    #[test]
    fn the_oldest_go_first_after_the_clock_was_set_back() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), 3);
        for number in [10, 11, 12, 1, 2] {
            keep(&directory, number, 10);
        }
        assert_eq!(ids(&directory), ["x-12", "x-1", "x-2"]);
    }

    #[test]
    fn a_bundle_that_cannot_be_written_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path(), 3);
        let in_the_way = format!("{}_x.tar/x", u64::MAX);
        fs::create_dir_all(directory.path().join(in_the_way)).unwrap();
        assert!(directory.keep(1, "x", b"text").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_refused() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", root.path().join("failed")).unwrap();
        let uid = geteuid().as_raw();
        let created = Directory::create(root.path().join("failed"), 1, uid);
        assert!(matches!(created, Err(NoDirectory::Foreign { .. })));
    }

    #[test]
    fn a_smaller_number_removes_the_oldest() {
        let root = tempfile::tempdir().unwrap();
        let many = directory(root.path(), 3);
        (1..=3).for_each(|number| keep(&many, number, 1));
        fs::write(many.path().join("000_y.part"), "").unwrap();
        directory(root.path(), 1).tidy().unwrap();
        assert_eq!((ids(&many).len(), fs::read_dir(many.path()).unwrap().count()), (1, 1));
    }
}
