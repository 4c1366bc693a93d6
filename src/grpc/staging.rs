//! Where sockets are made before they are shown, and where they go in the end.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};

/// How the names of these directories begin. Clients take every socket in the
/// directory for a plugin, whatever its name, but do not look into others.
const PREFIX: &str = ".new-";

/// How often another name is tried for a directory.
const ATTEMPTS: usize = 16;

/// A directory of our own beside the sockets, on the same file system. It is
/// locked for as long as it is used: what nobody locks is a predecessor's.
#[derive(Debug)]
pub(super) struct Staging {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
    used: AtomicU64,
}

/// A file, whatever its name is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Staging {
    /// Makes a directory in that of the sockets, and removes those that their
    /// owners had no time to remove.
    pub(super) fn new(sockets: &Path) -> io::Result<Self> {
        clear(sockets)?;
        for _ in 0..ATTEMPTS {
            let path = sockets.join(format!("{PREFIX}{:04x}", rand::random::<u16>()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // One that starts at the same time may take it for a dead one's
            // before it is locked, and remove it.
            if let Some(lock) = lock(&path)?
                && Identity::of(&path)
                    .is_ok_and(|now| Identity::held(&lock).is_ok_and(|l| l == now))
            {
                return Ok(Self { path, _lock: lock, used: AtomicU64::new(0) });
            }
        }
        Err(io::Error::other("cannot make a directory for new sockets"))
    }

    /// A path that nothing has.
    pub(super) fn path(&self) -> PathBuf {
        self.path.join(self.used.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Removes `path` if it is still the file it was; whether it was removed.
    ///
    /// Looking and then unlinking could take away what a successor put there in
    /// between, so it is moved out of sight first, and back if it is another.
    pub(super) fn remove(&self, path: &Path, file: Identity) -> io::Result<bool> {
        if !Identity::of(path).is_ok_and(|now| now == file) {
            return Ok(false);
        }
        let away = self.path();
        fs::rename(path, &away)?;
        if Identity::of(&away)? == file {
            fs::remove_file(&away)?;
            return Ok(true);
        }
        match renameat_with(CWD, &away, CWD, path, RenameFlags::NOREPLACE) {
            // Yet another came meanwhile.
            Err(Errno::EXIST) => fs::remove_file(&away)?,
            moved => moved?,
        }
        Ok(false)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What is left is cleared by whoever comes next.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Identity {
    /// The file at a path; of a link, the link.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let about = fs::symlink_metadata(path)?;
        Ok(Self { device: about.dev(), inode: about.ino() })
    }

    fn held(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self { device: about.dev(), inode: about.ino() })
    }
}

/// Locks a directory; `None` if somebody else has, or it is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        locked => locked.map(|()| Some(directory)).map_err(Into::into),
    }
}

fn clear(sockets: &Path) -> io::Result<()> {
    for entry in fs::read_dir(sockets)? {
        let entry = entry?;
        let is_staging = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !is_staging || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(Some(_lock)) = lock(&entry.path()) {
            // Another may be faster; and what cannot be removed harms nobody.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_predecessors_directory_is_cleared_unless_it_lives() {
        let sockets = tempfile::tempdir().unwrap();
        let living = Staging::new(sockets.path()).unwrap();
        fs::create_dir(sockets.path().join(".new-dead")).unwrap();
        fs::write(sockets.path().join(".new-dead/0"), "").unwrap();
        let other = Staging::new(sockets.path()).unwrap();
        assert_ne!(living.path, other.path);
        assert_eq!(entries(sockets.path()), 2);
        drop((living, other));
        assert_eq!(entries(sockets.path()), 0);
    }

    #[test]
    fn only_the_same_file_is_removed() {
        let sockets = tempfile::tempdir().unwrap();
        let staging = Staging::new(sockets.path()).unwrap();
        let path = sockets.path().join("a.sock");
        fs::write(&path, "old").unwrap();
        let old = Identity::of(&path).unwrap();
        fs::write(sockets.path().join("new"), "new").unwrap();
        fs::rename(sockets.path().join("new"), &path).unwrap();
        assert!(!staging.remove(&path, old).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(staging.remove(&path, Identity::of(&path).unwrap()).unwrap());
        assert!(!path.exists());
    }
}
