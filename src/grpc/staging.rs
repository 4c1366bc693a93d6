//! The hidden directory in which sockets are created and removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use cmp_sandbox::LockedDirectory;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::supervisor::FileIdentity;

/// Prefix of these directories. Clients take every file in the sockets'
/// directory for a plugin, but do not search subdirectories.
const PREFIX: &str = ".new-";

/// Mode of these directories.
pub(super) const MODE: u32 = 0o700;

/// A directory of this process beside the sockets, on the same file system.
#[derive(Debug)]
pub(super) struct Staging {
    directory: LockedDirectory,
    used: AtomicU64,
}

impl Staging {
    /// Creates a directory beside the sockets, and removes the directories of
    /// dead processes.
    pub(super) fn new(sockets: &Path) -> io::Result<Self> {
        let directory = LockedDirectory::create(sockets, PREFIX, MODE)?;
        Ok(Self { directory, used: AtomicU64::new(0) })
    }

    /// True if the directory is still at its path.
    pub(super) fn is_present(&self) -> bool {
        self.directory.is_present()
    }

    /// The directory.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A path that is not in use.
    pub(super) fn path(&self) -> PathBuf {
        self.directory().join(self.used.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Removes `path` if it is still `file`; returns true if it was removed.
    ///
    /// A plain check and unlink could remove a successor's file. So this moves
    /// the file away first, and moves it back if it is another one.
    pub(super) fn remove(&self, path: &Path, file: FileIdentity) -> io::Result<bool> {
        if !FileIdentity::of(path).is_ok_and(|now| now == file) {
            return Ok(false);
        }
        if let Some(sockets) = self.directory().parent()
            && !self.is_present()
        {
            // Somebody removed the directory after the file was created in it.
            return Self::new(sockets)?.remove(path, file);
        }
        let away = self.path();
        fs::rename(path, &away)?;
        if FileIdentity::of(&away)? == file {
            fs::remove_file(&away)?;
            return Ok(true);
        }
        match renameat_with(CWD, &away, CWD, path, RenameFlags::NOREPLACE) {
            // A third process has put its file there meanwhile.
            Err(Errno::EXIST) => fs::remove_file(&away)?,
            moved => moved?,
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn remove_leaves_another_file_in_place() {
        let sockets = tempfile::tempdir().unwrap();
        let staging = Staging::new(sockets.path()).unwrap();
        let path = sockets.path().join("a.sock");
        fs::write(&path, "old").unwrap();
        let old = FileIdentity::of(&path).unwrap();
        fs::write(sockets.path().join("new"), "new").unwrap();
        fs::rename(sockets.path().join("new"), &path).unwrap();
        assert!(!staging.remove(&path, old).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(staging.remove(&path, FileIdentity::of(&path).unwrap()).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_removed_although_the_directory_for_it_is_gone() {
        let sockets = tempfile::tempdir().unwrap();
        let staging = Staging::new(sockets.path()).unwrap();
        let path = sockets.path().join("a.sock");
        fs::write(&path, "").unwrap();
        fs::remove_dir(staging.directory()).unwrap();
        assert!(staging.remove(&path, FileIdentity::of(&path).unwrap()).unwrap());
        assert_eq!(entries(sockets.path()), 0);
    }
}
