//! Access to paths: those that are missing, and our own directories, which any
//! process with our UID can close.
//!
//! In tier `landlock`, requests run under our UID. Landlock has no right for
//! chmod(2), so a request can close directories that it cannot even read.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::{fs::Mode, process::geteuid};

/// All rights of the owner, those to read a directory, and the one to pass through it.
pub(crate) const OWNER: u32 = 0o700;
pub(crate) const READ: u32 = 0o500;
const PASS: u32 = 0o100;

/// All rights of everybody.
const ALL: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// True if there is nothing at a path.
pub(crate) fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
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

    fn close(path: &Path, mode: u32) {
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
        close(&inner, 0o000);
        close(&outer, 0o000);
        assert!(restore(&inner, OWNER, 0o750).unwrap());
        assert_eq!((mode(&outer), mode(&inner)), (0o750, 0o750));
        assert!(!restore(&inner, OWNER, 0o750).unwrap());
    }

    #[test]
    fn a_directory_of_another_user_stays_as_it_is() {
        if !geteuid().is_root() {
            return skip("needs root, to give a directory away");
        }
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(root.path(), Some(1), None).unwrap();
        close(root.path(), 0o000);
        assert!(!restore(root.path(), OWNER, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o000);
    }

    #[test]
    fn a_directory_that_is_closed_only_in_part_is_opened_to_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        close(root.path(), 0o050);
        assert!(restore(root.path(), OWNER, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o750);
    }

    #[test]
    fn a_directory_that_is_only_read_may_be_closed_to_writing() {
        let root = tempfile::tempdir().unwrap();
        close(root.path(), 0o555);
        assert!(!restore(root.path(), READ, 0o711).unwrap());
        assert_eq!(mode(root.path()), 0o555);
        close(root.path(), 0o055);
        assert!(restore(root.path(), READ, 0o711).unwrap());
    }

    #[test]
    fn rights_of_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sockets");
        fs::create_dir(&directory).unwrap();
        close(&directory, 0o055);
        assert!(restore(&directory, OWNER, 0o700).unwrap());
        assert_eq!(mode(&directory), 0o755);
    }
}
