//! The directory in which workspaces are created.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    sys::stat::{Mode, fchmod, fstat},
    unistd::{getegid, geteuid},
};
use thiserror::Error;

use super::{LAST_GRACE, RELEASE_TIMEOUT, claims::pause};
use crate::{
    kernel::{privilege::as_user, unwritable::directory_remedy},
    worker::HOME,
};

/// Name of the directory of all workspaces, below the work directory; Argo CD uses the same.
pub const WORKSPACES: &str = "_cmp_server";

/// Bytes of the path of a request's HOME, after the work directory. A workspace's name is 128
/// random bits in hexadecimal.
pub const HOME_PATH: usize = "/".len() + WORKSPACES.len() + "/".len() + 32 + "/".len() + HOME.len();

/// Name of the directory, beside that of workspaces, at which the common part of the
/// roots of requests is mounted. Only the spawner and its children see the mount.
pub(crate) const FRAME: &str = "_cmp_root";

/// Every tenant may enter, none may list. The group may write, because a worker
/// creates its workspace with it.
const MODE: u32 = 0o771;

/// Permissions of an owner.
const OWN: u32 = 0o700;

/// Longest wait for the lock. The spawner of a supervisor that was killed holds it until it has
/// released all leases.
const LOCK_PATIENCE: Duration =
    LAST_GRACE.saturating_add(RELEASE_TIMEOUT).saturating_add(Duration::from_secs(1));

/// Reasons why there is no directory for workspaces.
#[derive(Debug, Error)]
pub(super) enum NoWorkspaceRoot {
    #[error("{path}: {error}: {}", directory_remedy(.error, "--work-dir"))]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "{path}: cannot give the directory to UID {owner}: {error}: add the capability CHOWN, or run \
         the container as this UID (runAsUser), or use --isolation uid"
    )]
    NotGiven { path: PathBuf, error: io::Error, owner: u32 },
    #[error("{path} is used by another supervisor: give each its own --work-dir")]
    Taken { path: PathBuf },
    #[error("{path}: cannot lock it: {error}: choose a volume that can lock files with --work-dir")]
    Unlockable { path: PathBuf, error: Errno },
    #[error(
        "{path} was removed and cannot be created again: {error}: {}",
        directory_remedy(.error, "--work-dir")
    )]
    Lost { path: PathBuf, error: io::Error },
    #[error("{path}: {error}: remove what is in the place of this directory")]
    Obstructed { path: PathBuf, error: Errno },
    #[error("{path} was removed and created again by UID {uid}: remove it")]
    Foreign { path: PathBuf, uid: u32 },
}

impl NoWorkspaceRoot {
    /// The lock cannot be had.
    fn unlocked(path: &Path, error: Errno) -> Self {
        let path = path.to_owned();
        if error == Errno::EWOULDBLOCK {
            Self::Taken { path }
        } else {
            Self::Unlockable { path, error }
        }
    }

    /// A file or a link in the place of the directory.
    fn obstructed(path: &Path, error: &io::Error) -> Option<Self> {
        let error = Errno::from_raw(error.raw_os_error()?);
        let is_obstacle = matches!(error, Errno::EEXIST | Errno::ENOTDIR | Errno::ELOOP)
            && path.parent().is_some_and(Path::is_dir);
        is_obstacle.then(|| Self::Obstructed { path: path.to_owned(), error })
    }
}

/// The directory, locked by this process.
#[derive(Debug)]
pub(super) struct WorkspaceRoot {
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    /// Tenants have the same UID.
    is_shared: bool,
    _lock: Flock<File>,
}

impl WorkspaceRoot {
    /// Creates and locks the directory. `owner` is its UID in tiers without
    /// separate UIDs.
    pub(super) fn make(work_dir: &Path, owner: Option<u32>) -> Result<Self, NoWorkspaceRoot> {
        let (path, file) = make(&work_dir.join(WORKSPACES), MODE, owner)?;
        Self::lock(path, file, owner.is_some(), LOCK_PATIENCE)
    }

    fn lock(
        path: PathBuf,
        file: File,
        is_shared: bool,
        patience: Duration,
    ) -> Result<Self, NoWorkspaceRoot> {
        let failed = |error| NoWorkspaceRoot::Io { path: path.clone(), error };
        let directory = OwnedFd::from(file.try_clone().map_err(failed)?);
        let lock = lock(file, patience).map_err(|error| NoWorkspaceRoot::unlocked(&path, error))?;
        Ok(Self { path, directory, is_shared, _lock: lock })
    }

    /// Opens the directory if a tenant with the same UID has closed it. Returns false if it was
    /// removed.
    pub(super) fn reopen(&self) -> io::Result<bool> {
        let about = fstat(&self.directory)?;
        if about.st_nlink == 0 {
            return Ok(false);
        }
        if about.st_mode & 0o7777 != MODE && about.st_uid == geteuid().as_raw() {
            fchmod(&self.directory, Mode::from_bits_truncate(MODE))?;
        }
        if self.is_shared {
            open_ways(&self.path);
        }
        Ok(true)
    }

    /// Opens the directory, or creates it again if it was removed. A directory that was moved
    /// is not replaced, because it may hold files of a tenant.
    pub(super) fn renew(&mut self) -> Result<(), NoWorkspaceRoot> {
        let failed = |error: io::Error| {
            NoWorkspaceRoot::obstructed(&self.path, &error)
                .unwrap_or_else(|| NoWorkspaceRoot::Lost { path: self.path.clone(), error })
        };
        if self.reopen().map_err(failed)? {
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
        set_mode(&file, MODE).and_then(|()| give(&file, None)).map_err(failed)?;
        *self = Self::lock(self.path.clone(), file, self.is_shared, Duration::ZERO)?;
        Ok(())
    }
}

/// Locks a file. While another process holds the lock, this tries again until `patience` is over.
fn lock(mut file: File, patience: Duration) -> Result<Flock<File>, Errno> {
    let until = Instant::now() + patience;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((held, Errno::EWOULDBLOCK)) if Instant::now() < until => file = held,
            Err((_, error)) => return Err(error),
        }
        pause();
    }
}

/// Creates a directory and its parents. Returns its path without links.
pub(super) fn make(
    path: &Path,
    mode: u32,
    owner: Option<u32>,
) -> Result<(PathBuf, File), NoWorkspaceRoot> {
    let failed = |error: io::Error| {
        NoWorkspaceRoot::obstructed(path, &error)
            .unwrap_or_else(|| NoWorkspaceRoot::Io { path: path.to_owned(), error })
    };
    // In tiers without separate UIDs, a tenant of an earlier start may have
    // closed the directory.
    if owner.is_some() {
        as_user(owner, || open_ways(path));
    }
    create(path, mode).map_err(failed)?;
    let file = File::open(path).map_err(failed)?;
    set_mode(&file, mode).map_err(failed)?;
    give(&file, owner).map_err(|error| match owner {
        // Without CHOWN, root creates directories, and cannot give them to others.
        Some(owner) if geteuid().is_root() && error.kind() == ErrorKind::PermissionDenied => {
            NoWorkspaceRoot::NotGiven { path: path.to_owned(), error, owner }
        }
        Some(_) | None => failed(error),
    })?;
    Ok((path.canonicalize().map_err(failed)?, file))
}

fn create(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Gives this user back its permissions for a directory and its parents, as far
/// as they belong to this user. Errors show later. Only for tiers in which
/// tenants have the same UID, because it follows links.
pub(super) fn open_ways(path: &Path) {
    let parents: Vec<_> = path.ancestors().collect();
    for directory in parents.into_iter().rev() {
        let Ok(about) = fs::symlink_metadata(directory) else { return };
        let mode = about.mode() & 0o7777;
        // The file system UID, which the kernel checks, cannot be read.
        if about.is_dir() && mode & OWN != OWN {
            let _ = fs::set_permissions(directory, fs::Permissions::from_mode(mode | OWN));
        }
    }
}

/// Reads a file of this user, or else of another one.
pub(super) fn read_as(user: u32, path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).or_else(|_refused| as_user(Some(user), || fs::read(path)))
}

/// Sets a directory's mode, which the umask has reduced at creation. Its owner does it: for
/// others, root needs the capability FOWNER.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let about = file.metadata()?;
    if about.mode() & 0o7777 == mode {
        return Ok(());
    }
    as_user(Some(about.uid()), || file.set_permissions(fs::Permissions::from_mode(mode)))
}

/// Sets a directory's owner.
fn give(file: &File, owner: Option<u32>) -> io::Result<()> {
    let (user, group) = match owner.filter(|_| geteuid().is_root()) {
        Some(owner) => (owner, owner),
        None => (geteuid().as_raw(), getegid().as_raw()),
    };
    let about = file.metadata()?;
    // argocd-cmp-server or another UID may have created it.
    if (about.uid(), about.gid()) != (user, group) {
        fchown(file, Some(user), Some(group))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use caps::{CapSet, Capability};

    use super::*;
    use crate::skip::{lacks_root, soon};

    fn make_within(patience: Duration, work_dir: &Path) -> Result<WorkspaceRoot, NoWorkspaceRoot> {
        let (path, file) = make(&work_dir.join(WORKSPACES), MODE, None)?;
        WorkspaceRoot::lock(path, file, false, patience)
    }

    #[test]
    fn a_work_directory_is_locked_by_one_supervisor() {
        let directory = tempfile::tempdir().unwrap();
        let first = WorkspaceRoot::make(directory.path(), None).unwrap();
        let second = make_within(Duration::ZERO, directory.path());
        assert!(matches!(second, Err(NoWorkspaceRoot::Taken { .. })));
        drop(first);
        assert!(soon(|| make_within(Duration::ZERO, directory.path()).is_ok()));
    }

    #[test]
    fn a_supervisor_waits_for_the_spawner_of_a_killed_one() {
        let directory = tempfile::tempdir().unwrap();
        let killed = WorkspaceRoot::make(directory.path(), None).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| make_within(Duration::from_mins(1), directory.path()));
            // Longer than the next one needs for its first attempt on most machines; on others,
            // this test proves less.
            thread::sleep(Duration::from_millis(500));
            drop(killed);
            assert!(next.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_volume_without_locks_is_not_called_taken() {
        let text = |error| NoWorkspaceRoot::unlocked(Path::new("/w"), error).to_string();
        assert!(text(Errno::EWOULDBLOCK).contains("/w is used by another supervisor"));
        let other = text(Errno::ENOLCK);
        assert!(other.contains("cannot lock it: ENOLCK") && !other.contains("another"), "{other}");
    }

    #[test]
    fn root_needs_no_right_to_the_files_of_others_to_give_the_directory() {
        if lacks_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().to_owned();
        let make = move || {
            for set in [CapSet::Effective, CapSet::Permitted] {
                caps::drop(None, set, Capability::CAP_FOWNER).unwrap();
            }
            let path = WorkspaceRoot::make(&work, Some(62_112)).unwrap().path;
            let found = || fs::metadata(&path).map(|about| (about.uid(), about.mode() & 0o7777));
            assert_eq!(found().unwrap(), (62_112, MODE));
            let closed = fs::Permissions::from_mode(0o700);
            as_user(Some(62_112), || fs::set_permissions(&path, closed)).unwrap();
            set_mode(&File::open(&path).unwrap(), MODE).unwrap();
            assert_eq!(found().unwrap(), (62_112, MODE));
        };
        thread::spawn(make).join().unwrap();
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
        // Whoever removed it waits for nothing: the end of a request must not bring it back.
        assert!(!root.reopen().unwrap() && !root.path.exists());
        root.renew().unwrap();
        let mode = fs::metadata(&root.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, MODE);
        let second = make_within(Duration::ZERO, directory.path());
        assert!(matches!(second, Err(NoWorkspaceRoot::Taken { .. })));
    }

    #[test]
    fn a_closed_directory_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let close = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
        };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let work = directory.path().join("work");
        let owner = Some(geteuid().as_raw());
        let mut root = WorkspaceRoot::make(&work, owner).unwrap();
        let path = root.path.clone();
        close(&path);
        close(&work);
        root.renew().unwrap();
        assert_eq!((mode(&work), mode(&path)), (OWN, MODE));
        drop(root);
        close(&path);
        close(&work);
        assert!(soon(|| WorkspaceRoot::make(&work, owner).is_ok()));
        assert_eq!((mode(&work), mode(&path)), (OWN, MODE));
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
    fn a_directory_that_another_user_created_again_is_refused() {
        if lacks_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut root = WorkspaceRoot::make(directory.path(), None).unwrap();
        fs::remove_dir(&root.path).unwrap();
        fs::create_dir(&root.path).unwrap();
        std::os::unix::fs::chown(&root.path, Some(1), None).unwrap();
        assert!(matches!(root.renew(), Err(NoWorkspaceRoot::Foreign { uid: 1, .. })));
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
