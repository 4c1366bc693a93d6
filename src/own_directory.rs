//! Our own directories: those that only the supervisor can enter, and the rights of all of
//! them, which any process with our UID can take away.
//!
//! In tier `landlock`, requests run under our UID. Landlock has no right for
//! chmod(2), so a request can close directories that it cannot even read.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
    path::Path,
};

use cmp_sandbox::{as_user, directory_remedy};
use rustix::{fs::Mode, process::geteuid};
use thiserror::Error;

/// Rights of the directory: the owner's only.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// Rights of a file in it.
pub(crate) const FILE_MODE: u32 = 0o600;

/// All rights of the owner, those to read a directory, and the one to pass through it.
pub(crate) const OWNER: u32 = 0o700;
pub(crate) const READ: u32 = 0o500;
const PASS: u32 = 0o100;

/// All rights of everybody.
const ALL: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// A directory cannot be used.
#[derive(Debug, Error)]
pub(crate) enum NotOwn {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a link or a file, or it belongs to somebody else.
    #[error("it is no directory of UID {0}: remove it")]
    Foreign(u32),
}

impl NotOwn {
    /// The remedy, unless the error has it already. `flag` chooses another directory above.
    pub(crate) fn remedy(&self, flag: &str) -> Option<String> {
        match self {
            Self::Io(error) => Some(directory_remedy(error, flag)),
            Self::Foreign(_) => None,
        }
    }
}

/// Creates a directory for the supervisor's UID, or checks it. Call this while the process may
/// still change owners.
pub(crate) fn create(path: &Path, uid: u32) -> Result<(), NotOwn> {
    let owner = if geteuid().is_root() { uid } else { geteuid().as_raw() };
    // Without CAP_CHOWN, an earlier version left an empty directory of root.
    if fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() != owner) {
        let _ = fs::remove_dir(path);
    }
    make(path, owner)?;
    check(path, owner)?;
    Ok(as_user(Some(owner), || close(path))?)
}

/// Checks that a path is a directory of this user.
pub(crate) fn check(path: &Path, owner: u32) -> Result<(), NotOwn> {
    let about = fs::symlink_metadata(path)?;
    let is_own = about.is_dir() && about.uid() == owner;
    if is_own { Ok(()) } else { Err(NotOwn::Foreign(owner)) }
}

/// Creates a directory with this owner, unless it exists. Containers often have no
/// `CAP_CHOWN`, so root first tries it as the owner.
fn make(path: &Path, owner: u32) -> io::Result<()> {
    let create = || match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        created => created.map(|()| true),
    };
    match as_user(Some(owner), create) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && geteuid().is_root() => {
            let is_new = create()?;
            let given = if is_new { chown(path, Some(owner), Some(owner)) } else { Ok(()) };
            // It would be in the way of the next start.
            given.inspect_err(|_| drop(fs::remove_dir(path)))
        }
        created => created.map(drop),
    }
}

/// Takes the rights of others away.
pub(crate) fn close(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}

/// Gives the owner's rights back to a directory of ours that lacks one of those that are
/// `needed`, and to the directories above it. Returns true if rights were missing. `mode` is
/// the mode of a directory that lost all of its rights.
pub(crate) fn restore(directory: &Path, needed: u32, mode: u32) -> io::Result<bool> {
    let mut restored = false;
    let mut above: Vec<&Path> = directory.ancestors().skip(1).collect();
    above.reverse();
    for path in above.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        restored |= restore_one(path, PASS, mode)?;
    }
    Ok(restore_one(directory, needed, mode)? || restored)
}

fn restore_one(path: &Path, needed: u32, mode: u32) -> io::Result<bool> {
    let about = fs::metadata(path)?;
    let has = about.mode() & 0o7777;
    if has & needed == needed || about.uid() != geteuid().as_raw() || !about.is_dir() {
        return Ok(false);
    }
    let mode = if Mode::from_raw_mode(has).intersection(ALL).is_empty() {
        has | mode
    } else {
        has | OWNER
    };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn closed_directories_are_opened_from_the_outside_in() {
        let root = tempfile::tempdir().unwrap();
        let (outer, inner) = (root.path().join("outer"), root.path().join("outer/inner"));
        fs::create_dir_all(&inner).unwrap();
        set_mode(&inner, 0o000);
        set_mode(&outer, 0o000);
        assert!(restore(&inner, OWNER, 0o750).unwrap());
        assert_eq!((mode(&outer), mode(&inner)), (0o750, 0o750));
        assert!(!restore(&inner, OWNER, 0o750).unwrap());
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_told_with_the_uid() {
        let refused = NotOwn::from(io::Error::from(io::ErrorKind::PermissionDenied));
        let remedy = refused.remedy("--work-dir").unwrap();
        let start = format!("make the directory writable by UID {}", geteuid());
        assert!(remedy.starts_with(&start), "{remedy}");
    }

    #[test]
    fn a_directory_of_another_user_stays_as_it_is() {
        if !geteuid().is_root() {
            return skip("needs root, to give a directory away");
        }
        let root = tempfile::tempdir().unwrap();
        chown(root.path(), Some(1), None).unwrap();
        set_mode(root.path(), 0o000);
        assert!(!restore(root.path(), OWNER, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o000);
    }

    #[test]
    fn a_directory_that_is_closed_only_in_part_is_opened_to_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        set_mode(root.path(), 0o050);
        assert!(restore(root.path(), OWNER, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o750);
    }

    #[test]
    fn a_directory_that_is_only_read_may_be_closed_to_writing() {
        let root = tempfile::tempdir().unwrap();
        set_mode(root.path(), 0o555);
        assert!(!restore(root.path(), READ, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o555);
        set_mode(root.path(), 0o055);
        assert!(restore(root.path(), READ, 0o711).unwrap());
    }

    #[test]
    fn rights_of_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sockets");
        fs::create_dir(&directory).unwrap();
        set_mode(&directory, 0o055);
        assert!(restore(&directory, OWNER, 0o700).unwrap());
        assert_eq!(mode(&directory), 0o755);
    }
}
