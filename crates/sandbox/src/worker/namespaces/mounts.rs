//! Mounts of a root.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nix::mount::{MsFlags, mount};

/// Decides how all mounts at and below a path follow others.
pub(super) fn propagate(path: &str, way: MsFlags) -> io::Result<()> {
    let nowhere = None::<&str>;
    Ok(mount(nowhere, path, nowhere, MsFlags::MS_REC | way, nowhere)?)
}

/// Mounts an empty file system in memory.
pub(super) fn scratch(target: &Path, options: &str) -> io::Result<()> {
    Ok(mount(Some("tmpfs"), target, Some("tmpfs"), inert(), Some(options))?)
}

/// Mounts a file or directory at another path, with these options.
pub(super) fn bind(source: &Path, target: &Path, options: MsFlags) -> io::Result<()> {
    let nowhere = None::<&str>;
    mount(Some(source), target, nowhere, MsFlags::MS_BIND, nowhere)?;
    remount(target, options)
}

/// Makes sure that there is a file at which another one can be mounted.
pub(super) fn make_file(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), fs::create_dir_all)?;
    if target.exists() { Ok(()) } else { File::create(target).map(drop) }
}

/// Changes the options of a mount, which gets neither device files nor programs that give
/// rights.
pub(super) fn remount(target: &Path, options: MsFlags) -> io::Result<()> {
    let (nowhere, again) = (None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REMOUNT);
    Ok(mount(nowhere, target, nowhere, again | inert() | options, nowhere)?)
}

pub(super) fn inert() -> MsFlags {
    MsFlags::MS_NOSUID | MsFlags::MS_NODEV
}

/// The path in the new root, which is the working directory.
pub(super) fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
