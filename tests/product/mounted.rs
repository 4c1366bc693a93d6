//! File systems of tests. They need root.

use std::{
    fs::File,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::waiting::retry;

/// A directory in memory, which is unmounted when this value is dropped.
pub(crate) struct InMemory<'p>(&'p Path);

impl<'p> InMemory<'p> {
    pub(crate) fn at(path: &'p Path, options: &str) -> Self {
        mount(Some("tests"), path, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
        Self(path)
    }

    /// Closes or opens the whole file system and not only this mount, as the kernel does after
    /// an I/O error. `flags` are those of the new state.
    #[track_caller]
    pub(crate) fn remount(&self, flags: MsFlags) {
        let flags = flags | MsFlags::MS_REMOUNT;
        retry(|| mount(None::<&str>, self.0, None::<&str>, flags, None::<&str>));
    }

    /// Waits for writes under way: the kernel closes no mount that is written to (`EBUSY`).
    #[track_caller]
    pub(crate) fn become_writable(&self, is_writable: bool) {
        let remount = MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
        let flags = if is_writable { remount } else { remount | MsFlags::MS_RDONLY };
        retry(|| mount(None::<&str>, self.0, None::<&str>, flags, None::<&str>));
    }
}

impl Drop for InMemory<'_> {
    fn drop(&mut self) {
        umount2(self.0, MntFlags::MNT_DETACH).unwrap();
    }
}

/// A file system in user space whose server never answers.
pub(crate) struct Silent {
    server: Option<File>,
    point: PathBuf,
}

impl Silent {
    /// Mounts it; `None` without `/dev/fuse`.
    pub(crate) fn mount(point: &Path) -> Option<Self> {
        let server = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let descriptor = server.as_raw_fd();
        let options = format!("fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other");
        let none = Some("silent");
        mount(none, point, Some("fuse"), MsFlags::empty(), Some(options.as_str())).ok()?;
        Some(Self { server: Some(server), point: point.to_owned() })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // All calls that wait fail now.
        self.server = None;
        umount2(&self.point, MntFlags::MNT_DETACH).unwrap();
    }
}
