//! The parts of a root: mounts, links and copies.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use nix::mount::MsFlags;
use rustix::{
    fs::{CWD, FileType, fstat},
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};

use super::{
    copies::Copy,
    mounts::{make_file, remount},
};
use crate::worker::{
    Tenant,
    modes::{self, Reader},
};

/// Directory of the new root in which copies are made.
const COPIES: &str = ".copies";

/// A path of the new root.
pub(super) enum Part {
    Link(PathBuf),
    Bound(Source),
    /// Files about the machine, none of which is a program.
    Kernel(Source),
    Copied(Copy),
    /// A cache, mounted writable.
    Shared(Source),
    Gone,
}

impl Part {
    pub(super) fn of(path: &Path) -> Self {
        match fs::read_link(path) {
            Ok(target) => Self::Link(target),
            Err(_) if path.starts_with("/sys") => {
                Source::open(path).map_or(Self::Gone, Self::Kernel)
            }
            Err(_) => Source::open(path).map_or(Self::Gone, Self::Bound),
        }
    }

    /// A path to read. If its mode closes it to the tenant, it is a copy.
    pub(super) fn named(path: &Path, tenant: &Tenant) -> io::Result<Self> {
        let closed =
            tenant.user.and_then(|user| modes::itself(path, &Reader::alone(user.as_raw())));
        let part = match closed {
            Some(_) => Copy::read(path).map(Self::Copied),
            None => Source::open(path).map(Self::Bound),
        };
        match part {
            // Unmounted since it was resolved.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Gone),
            part => part,
        }
    }

    pub(super) fn put(&self, target: &Path) -> io::Result<()> {
        match self {
            Self::Copied(copy) => copy.put(target, Path::new(COPIES)),
            Self::Link(value) => {
                target.parent().map_or(Ok(()), fs::create_dir_all)?;
                symlink(value, target)
            }
            Self::Bound(source) => source.bind(target, MsFlags::MS_RDONLY),
            Self::Kernel(source) => source.bind(target, MsFlags::MS_RDONLY | MsFlags::MS_NOEXEC),
            Self::Shared(source) => source.bind(target, MsFlags::empty()),
            Self::Gone => Ok(()),
        }
    }
}

/// A file or directory that can be mounted again after its path is covered.
pub(super) struct Source {
    mount: OwnedFd,
    is_directory: bool,
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, path, flags)?;
        let is_directory = FileType::from_raw_mode(fstat(&mount)?.st_mode).is_dir();
        Ok(Self { mount, is_directory })
    }

    /// Mounts it without device files, and without programs that give rights.
    pub(super) fn bind(&self, target: &Path, access: MsFlags) -> io::Result<()> {
        if self.is_directory {
            fs::create_dir_all(target)?;
        } else {
            make_file(target)?;
        }
        self.put(target)?;
        remount(target, access)
    }

    /// Mounts it at a path that exists.
    pub(super) fn put(&self, target: &Path) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&self.mount, "", CWD, target, flags)?)
    }
}
