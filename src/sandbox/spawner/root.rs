//! The directory that workspaces are made in.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg},
    unistd::{Uid, getegid, geteuid},
};
use thiserror::Error;

/// Name of the directory below the work directory, as Argo CD's.
const NAME: &str = "_cmp_server";

/// Enterable by every tenant, listable by none, writable by the group that a
/// worker still has when it makes its own directory.
const MODE: u32 = 0o771;

/// Why there is no place for workspaces.
#[derive(Debug, Error)]
pub(super) enum NoRoot {
    #[error("{path}: {error}: the work directory must be writable by uid {uid}")]
    Io { path: PathBuf, error: io::Error, uid: Uid },
    #[error("{path} is used by another supervisor: give each a --work-dir of its own")]
    Taken { path: PathBuf },
}

/// A directory that is locked for this process.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    _lock: Flock<File>,
}

impl Root {
    /// Makes and locks the directory. It belongs to `owner` where all requests
    /// share that user.
    pub(super) fn make(work_dir: &Path, owner: Option<u32>) -> Result<Self, NoRoot> {
        let (path, file) = make(&work_dir.join(NAME), MODE, owner)?;
        let failed = |error| NoRoot::Io { path: path.clone(), error, uid: geteuid() };
        let directory = OwnedFd::from(file.try_clone().map_err(failed)?);
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_held| NoRoot::Taken { path: path.clone() })?;
        Ok(Self { path, directory, _lock: lock })
    }
}

/// Makes a directory with all above it, and returns its path without links.
pub(super) fn make(path: &Path, mode: u32, owner: Option<u32>) -> Result<(PathBuf, File), NoRoot> {
    let failed = |error| NoRoot::Io { path: path.to_owned(), error, uid: geteuid() };
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed)?;
    let file = File::open(path).map_err(failed)?;
    let (user, group) = match owner.filter(|_| geteuid().is_root()) {
        Some(owner) => (owner, owner),
        None => (geteuid().as_raw(), getegid().as_raw()),
    };
    let about = file.metadata().map_err(failed)?;
    // argocd-cmp-server, or we as another user, may have left it.
    if (about.uid(), about.gid()) != (user, group) {
        fchown(&file, Some(user), Some(group)).map_err(failed)?;
    }
    // The mode at creation was subject to the umask.
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok((path.canonicalize().map_err(failed)?, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_directory_belongs_to_one_supervisor() {
        let directory = tempfile::tempdir().unwrap();
        let first = Root::make(directory.path(), None).unwrap();
        let second = Root::make(directory.path(), None);
        assert!(matches!(second, Err(NoRoot::Taken { .. })));
        drop(first);
        assert!(Root::make(directory.path(), None).is_ok());
    }

    #[test]
    fn tenants_may_enter_and_not_list() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::make(directory.path(), None).unwrap();
        let mode = fs::metadata(&root.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0o001);
    }
}
