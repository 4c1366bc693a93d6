//! The work volume: a file system in memory that outlives the container, as an
//! `emptyDir` outlives it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::statvfs::statvfs,
};

/// A mounted volume, which is unmounted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) path: PathBuf,
}

/// Used space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl Volume {
    /// Mounts a volume. `options` are those of tmpfs.
    pub(crate) fn mount(path: &Path, options: &str) -> io::Result<Self> {
        fs::create_dir(path)?;
        mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options))?;
        // Kubernetes gives an empty volume this mode.
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Space in use.
    pub(crate) fn used(&self) -> Used {
        let space = statvfs(&self.path).unwrap();
        Used {
            bytes: (space.blocks() - space.blocks_free()) * space.fragment_size(),
            files: space.files() - space.files_free(),
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}

/// Unmounts the volume, even if a process still uses it.
pub(crate) fn unmount(path: &Path) {
    // The volume may have been unmounted already.
    let _ = umount2(path, MntFlags::MNT_DETACH);
}
