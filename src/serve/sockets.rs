//! The directory for sockets, before privileges are dropped.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::Path,
};

/// Creates the directory for sockets, owned by the supervisor's UID. Errors are
/// ignored: creating the first socket reports them.
///
/// If the directory is writable for everybody, as Kubernetes volumes are, it
/// gets the sticky bit, so that only a socket's owner can remove it.
pub(super) fn prepare_sockets(directory: &Path, uid: u32) {
    const ALL: u32 = 0o777;
    const STICKY: u32 = 0o1000;
    if fs::DirBuilder::new().mode(0o755).create(directory).is_ok() {
        let _ = chown(directory, Some(uid), Some(uid));
    } else if fs::metadata(directory).is_ok_and(|about| about.permissions().mode() & ALL == ALL) {
        // Fails for other users, which is harmless: Landlock does not need it.
        let _ = fs::set_permissions(directory, Permissions::from_mode(STICKY | ALL));
    }
}
