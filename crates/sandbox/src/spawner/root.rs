//! The directory in which workspaces are created.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg, OFlag},
    sys::stat::fstat,
    unistd::{Uid, getegid, geteuid},
};
use thiserror::Error;

/// Name of the directory below the work directory; Argo CD uses the same.
const NAME: &str = "_cmp_server";

/// Every tenant may enter, none may list. The group may write, because a worker
/// creates its workspace with it.
const MODE: u32 = 0o771;

/// Reasons why there is no directory for workspaces.
#[derive(Debug, Error)]
pub(super) enum NoWorkspaceRoot {
    #[error("{path}: {error}: the work directory must be writable by UID {uid}")]
    Io { path: PathBuf, error: io::Error, uid: Uid },
    #[error("{path} is used by another supervisor: give each its own --work-dir")]
    Taken { path: PathBuf },
    #[error(
        "{path} was removed and cannot be created again: {error}: make the work directory writable \
         by UID {uid}, or restart"
    )]
    Lost { path: PathBuf, error: io::Error, uid: Uid },
    #[error("{path} was removed and created again by UID {uid}: remove it")]
    Foreign { path: PathBuf, uid: u32 },
}

/// The directory, locked by this process.
#[derive(Debug)]
pub(super) struct WorkspaceRoot {
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    _lock: Flock<File>,
}

impl WorkspaceRoot {
    /// Creates and locks the directory. `owner` is its UID in tiers without
    /// separate UIDs.
    pub(super) fn make(work_dir: &Path, owner: Option<u32>) -> Result<Self, NoWorkspaceRoot> {
        let (path, file) = make(&work_dir.join(NAME), MODE, owner)?;
        Self::lock(path, file)
    }

    fn lock(path: PathBuf, file: File) -> Result<Self, NoWorkspaceRoot> {
        let failed = |error| NoWorkspaceRoot::Io { path: path.clone(), error, uid: geteuid() };
        let directory = OwnedFd::from(file.try_clone().map_err(failed)?);
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_held| NoWorkspaceRoot::Taken { path: path.clone() })?;
        Ok(Self { path, directory, _lock: lock })
    }

    /// Creates the directory again if it was removed. A directory that was
    /// moved is not replaced, because it may hold files of a tenant.
    pub(super) fn renew(&mut self) -> Result<(), NoWorkspaceRoot> {
        let failed =
            |error| NoWorkspaceRoot::Lost { path: self.path.clone(), error, uid: geteuid() };
        if fstat(&self.directory).map_err(|error| failed(error.into()))?.st_nlink > 0 {
            return Ok(());
        }
        create(&self.path, MODE).map_err(failed)?;
        // Tenants may be running, so links and directories of others are
        // refused.
        let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        let file = file.map_err(failed)?;
        let uid = file.metadata().map_err(failed)?.uid();
        if uid != geteuid().as_raw() {
            return Err(NoWorkspaceRoot::Foreign { path: self.path.clone(), uid });
        }
        settle(&file, MODE, None).map_err(failed)?;
        *self = Self::lock(self.path.clone(), file)?;
        Ok(())
    }
}

/// Creates a directory and its parents. Returns its path without links.
pub(super) fn make(
    path: &Path,
    mode: u32,
    owner: Option<u32>,
) -> Result<(PathBuf, File), NoWorkspaceRoot> {
    let failed = |error| NoWorkspaceRoot::Io { path: path.to_owned(), error, uid: geteuid() };
    create(path, mode).map_err(failed)?;
    let file = File::open(path).map_err(failed)?;
    settle(&file, mode, owner).map_err(failed)?;
    Ok((path.canonicalize().map_err(failed)?, file))
}

fn create(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Sets a directory's owner and mode.
fn settle(file: &File, mode: u32, owner: Option<u32>) -> io::Result<()> {
    let (user, group) = match owner.filter(|_| geteuid().is_root()) {
        Some(owner) => (owner, owner),
        None => (geteuid().as_raw(), getegid().as_raw()),
    };
    let about = file.metadata()?;
    // argocd-cmp-server or another UID may have created it.
    if (about.uid(), about.gid()) != (user, group) {
        fchown(file, Some(user), Some(group))?;
    }
    // The umask has reduced the mode at creation.
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_directory_is_locked_by_one_supervisor() {
        let directory = tempfile::tempdir().unwrap();
        let first = WorkspaceRoot::make(directory.path(), None).unwrap();
        let second = WorkspaceRoot::make(directory.path(), None);
        assert!(matches!(second, Err(NoWorkspaceRoot::Taken { .. })));
        drop(first);
        assert!(WorkspaceRoot::make(directory.path(), None).is_ok());
    }

    #[test]
    fn tenants_may_enter_but_not_list_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let root = WorkspaceRoot::make(directory.path(), None).unwrap();
        let mode = fs::metadata(&root.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0o001);
    }

    #[test]
    fn a_removed_directory_is_created_again_and_locked() {
        let directory = tempfile::tempdir().unwrap();
        let mut root = WorkspaceRoot::make(directory.path(), None).unwrap();
        fs::remove_dir(&root.path).unwrap();
        root.renew().unwrap();
        let mode = fs::metadata(&root.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, MODE);
        let second = WorkspaceRoot::make(directory.path(), None);
        assert!(matches!(second, Err(NoWorkspaceRoot::Taken { .. })));
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let mut root = WorkspaceRoot::make(directory.path(), None).unwrap();
        fs::remove_dir(&root.path).unwrap();
        std::os::unix::fs::symlink(directory.path(), &root.path).unwrap();
        let error = root.renew().unwrap_err().to_string();
        assert!(error.contains(&root.path.display().to_string()), "{error}");
    }

    #[test]
    fn a_moved_directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let mut root = WorkspaceRoot::make(directory.path(), None).unwrap();
        fs::rename(&root.path, directory.path().join("moved")).unwrap();
        root.renew().unwrap();
        assert!(!root.path.exists());
    }
}
