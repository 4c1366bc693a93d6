//! Directories in the work directory that only the supervisor can enter.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
    path::Path,
};

use cmp_sandbox::as_user;
use rustix::process::geteuid;
use thiserror::Error;

/// Rights of the directory: the owner's only.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// Rights of a file in it.
pub(crate) const FILE_MODE: u32 = 0o600;

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

/// Takes the rights of others away. With tier `landlock`, a request can change the
/// mode, though it can read nothing.
pub(crate) fn close(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}
