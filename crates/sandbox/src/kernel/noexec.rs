//! Volumes whose files the kernel does not execute.

use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

/// Returns true if the volume of this path is mounted with the option `noexec`.
#[must_use]
pub fn is_noexec(path: &Path) -> bool {
    statvfs(path).is_ok_and(|about| about.flags().contains(FsFlags::ST_NOEXEC))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use nix::{
        mount::{MsFlags, mount},
        sched::{CloneFlags, unshare},
    };

    use super::*;
    use crate::skip::lacks_root;

    #[test]
    fn the_option_is_that_of_the_mount() {
        if lacks_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_noexec(directory.path()));
        let path = directory.path().to_owned();
        let mounted = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none: Option<&str> = None;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(none, &path, Some("tmpfs"), MsFlags::MS_NOEXEC, none).unwrap();
            is_noexec(&path)
        });
        assert!(mounted.join().unwrap());
    }
}
