//! Directories beside the sockets that a process locks for as long as it uses them.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rand::RngExt;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// Attempts to create a directory.
const ATTEMPTS: usize = 16;

/// A directory on which this process holds a lock; one without a lock belongs to a process
/// that was killed. Dropping this removes it.
#[derive(Debug)]
pub struct LockedDirectory {
    path: PathBuf,
    lock: File,
}

impl LockedDirectory {
    /// Creates a directory in `parent`, and removes those of processes that were killed. Its
    /// name is `prefix` and seven further characters: the paths of sockets have a limit.
    pub fn create(parent: &Path, prefix: &str, mode: u32) -> io::Result<Self> {
        remove_abandoned(parent, prefix);
        for _ in 0..ATTEMPTS {
            // Random: several supervisors may share the directory, and have the same process ID
            // in containers of their own.
            let number = rand::rng().random_range(0..1_u32 << 28);
            let path = parent.join(format!("{prefix}{number:07x}"));
            match DirBuilder::new().mode(mode).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            // Another process that starts now may remove it before it is locked.
            let lock = lock_directory(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;
            if let Some(created) = lock.map(|lock| Self { path, lock }).filter(Self::is_present) {
                return Ok(created);
            }
        }
        Err(io::Error::other("other processes removed each new directory"))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the directory is still at its path.
    #[must_use]
    pub fn is_present(&self) -> bool {
        let [held, found] = [self.lock.metadata(), fs::symlink_metadata(&self.path)];
        held.is_ok_and(|held| {
            found.is_ok_and(|found| (found.dev(), found.ino()) == (held.dev(), held.ino()))
        })
    }
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        if self.is_present() {
            // The next process removes a directory that remains.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Locks a directory; `None` if another process holds the lock, or it is gone.
///
/// # Errors
///
/// If there is something else at the path.
fn lock_directory(path: &Path) -> io::Result<Option<File>> {
    // Anybody may create a pipe here, which would make this wait, or a link.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let directory = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        locked => locked.map(|()| Some(directory)).map_err(Into::into),
    }
}

/// Removes the directories in `parent` whose names begin with `prefix` and that nobody has
/// locked. Errors are ignored: another process may be faster, and one that stays does no harm.
fn remove_abandoned(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_meant = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        if is_meant && let Ok(Some(_abandoned)) = lock_directory(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn directories_of_killed_processes_are_removed_and_those_in_use_stay() {
        let parent = tempfile::tempdir().unwrap();
        let entries = || fs::read_dir(parent.path()).unwrap().count();
        let create = || LockedDirectory::create(parent.path(), "x-", 0o700).unwrap();
        let living = create();
        fs::create_dir(parent.path().join("x-killed")).unwrap();
        fs::write(parent.path().join("x-killed/file"), "").unwrap();
        let other = create();
        assert!(living.is_present() && living.path() != other.path());
        assert_eq!(entries(), 2);
        drop((living, other));
        assert_eq!(entries(), 0);
    }

    #[test]
    fn what_is_no_directory_is_neither_awaited_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name| parent.path().join(name);
        mkfifo(&at("x-pipe"), Mode::S_IRWXU).unwrap();
        fs::create_dir(at("other")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("x-link")).unwrap();
        assert!(lock_directory(&at("x-pipe")).is_err());
        assert!(lock_directory(&at("x-link")).is_err());
        assert!(lock_directory(&at("x-missing")).unwrap().is_none());
        remove_abandoned(parent.path(), "x-");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 3);
    }
}
