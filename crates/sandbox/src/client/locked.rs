//! Directories beside the sockets that a process locks for as long as it uses them.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// Locks a directory; `None` if another process holds the lock, or it is gone.
///
/// # Errors
///
/// If there is something else at the path.
pub fn lock_directory(path: &Path) -> io::Result<Option<File>> {
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
pub fn remove_abandoned(parent: &Path, prefix: &str) {
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
