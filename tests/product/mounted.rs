//! Directories in memory.

use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A directory in memory, which is unmounted when this value is dropped. It needs root.
pub(crate) struct InMemory<'p>(&'p Path);

impl<'p> InMemory<'p> {
    pub(crate) fn at(path: &'p Path, options: &str) -> Self {
        mount(Some("tests"), path, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
        Self(path)
    }

    pub(crate) fn become_writable(&self, is_writable: bool) {
        let remount = MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
        let flags = if is_writable { remount } else { remount | MsFlags::MS_RDONLY };
        mount(None::<&str>, self.0, None::<&str>, flags, None::<&str>).unwrap();
    }
}

impl Drop for InMemory<'_> {
    fn drop(&mut self) {
        umount2(self.0, MntFlags::MNT_DETACH).unwrap();
    }
}
