//! Directories that plugins could write to, before privileges are dropped, and errors of
//! the directory of sockets.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::Path,
};

use cmp_sandbox::NotProven;
use rustix::process::geteuid;

use super::NotServing;

const ALL: u32 = 0o777;
const STICKY: u32 = 0o1000;

/// Creates the directory for sockets, owned by the supervisor's UID. Errors are
/// ignored: creating the first socket reports them.
pub(super) fn prepare_sockets(directory: &Path, uid: u32) {
    if fs::DirBuilder::new().mode(0o755).create(directory).is_err() {
        only_owners_remove(directory);
    } else if chown(directory, Some(uid), Some(uid)).is_err() && geteuid().is_root() {
        // In a sidecar, root has no capability for it. Everybody can then create files in it,
        // as in a volume of Kubernetes.
        let _ = fs::set_permissions(directory, Permissions::from_mode(ALL | STICKY));
    }
}

/// Sets the sticky bit of a directory that is writable for everybody, as Kubernetes
/// volumes are. Only the owner of an entry can then remove or move it.
pub(super) fn only_owners_remove(directory: &Path) {
    const BITS: u32 = 0o7777;
    let Ok(about) = fs::metadata(directory) else { return };
    let mode = about.permissions().mode() & BITS;
    if mode & ALL == ALL {
        // Fails for other users, which is harmless: Landlock does not need it.
        let _ = fs::set_permissions(directory, Permissions::from_mode(mode | STICKY));
    }
}

impl From<NotProven> for NotServing {
    fn from(error: NotProven) -> Self {
        // The remedy is that of a socket that cannot be created.
        if let NotProven::Directory { path, error } = error {
            return Self::Sockets { path, error };
        }
        Self::Escaped(error)
    }
}
