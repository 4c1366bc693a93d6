//! What has to be in order before the first lease.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

use caps::{CapSet, Capability};
use nix::{
    fcntl::{Flock, FlockArg},
    unistd::{Uid, geteuid},
};
use thiserror::Error;

use super::super::{
    message::{Identities, Setup},
    privilege::become_user,
};

/// Name of the directory below the work directory, as Argo CD's.
const ROOT: &str = "_cmp_server";

/// Enterable by every tenant, listable by none, writable by the group that a
/// worker still has when it makes its own directory.
const ROOT_MODE: u32 = 0o771;

/// Why the spawner cannot do what it is asked to.
#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error(
        "distinct users for requests were asked for, but capability {0} is missing: run as root \
         with capabilities SETUID and SETGID, or choose another --isolation"
    )]
    Capability(Capability),
    #[error("cannot read the own capabilities: {0}")]
    Capabilities(caps::errors::CapsError),
    #[error(
        "users {first} to {last} are leased to requests, but {uid} is not mapped into this user \
         namespace: choose a range with --uid-range"
    )]
    Unmapped { first: u32, last: u32, uid: u32 },
    #[error(
        "no user from {first} to {last} is free: each belongs to somebody or to another \
         supervisor on this machine; choose another range with --uid-range"
    )]
    NoUser { first: u32, last: u32 },
    #[error("{path}: {error}: the work directory must be writable by uid {uid}")]
    WorkDir { path: PathBuf, error: io::Error, uid: Uid },
    #[error("{path} is used by another supervisor: give each a --work-dir of its own")]
    WorkDirTaken { path: PathBuf },
    #[error("cannot read {path}: {error}")]
    Read { path: &'static str, error: io::Error },
    #[error("the spawner could not {step}: {error}")]
    Step { step: &'static str, error: io::Error },
}

/// The users a spawner may lease. Nobody else on this machine leases them while
/// this value lives.
#[derive(Debug)]
pub(super) struct Users {
    pub(super) leased: Vec<Uid>,
    /// Whom a killer pretends to be; see [`super::kill`].
    pub(super) killer: Option<Uid>,
    _claims: Vec<UnixListener>,
}

/// The directory that workspaces are made in, locked for this process.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    _lock: Flock<File>,
}

/// Finds as many users as there shall be leases, and one for killing.
pub(super) fn users(setup: &Setup) -> Result<Users, Unfit> {
    if setup.identities() == Identities::Shared {
        let user = Uid::from_raw(setup.shared_uid);
        become_user(user)
            .map_err(|error| Unfit::Step { step: "change user", error: error.into() })?;
        let leased = vec![geteuid(); setup.leases as usize];
        return Ok(Users { leased, killer: None, _claims: Vec::new() });
    }
    for needed in [Capability::CAP_SETUID, Capability::CAP_SETGID] {
        let has = caps::has_cap(None, CapSet::Effective, needed).map_err(Unfit::Capabilities)?;
        if !has {
            return Err(Unfit::Capability(needed));
        }
    }
    let (first, last) = (setup.first_uid, setup.first_uid.saturating_add(setup.uid_count - 1));
    let taken = taken()?;
    for map in ["/proc/self/uid_map", "/proc/self/gid_map"] {
        let text = fs::read_to_string(map).map_err(|error| Unfit::Read { path: map, error })?;
        if let Some(uid) = (first..=last).find(|uid| !is_mapped(&text, *uid)) {
            return Err(Unfit::Unmapped { first, last, uid });
        }
    }
    let wanted = setup.leases as usize + 1;
    let free = (first..=last).filter(|uid| !taken.contains(uid));
    let mut claimed = free.filter_map(|uid| Some((Uid::from_raw(uid), claim(uid)?))).take(wanted);
    let Some((killer, claim)) = claimed.next() else { return Err(Unfit::NoUser { first, last }) };
    let (leased, mut claims): (Vec<_>, Vec<_>) = claimed.unzip();
    if leased.is_empty() {
        return Err(Unfit::NoUser { first, last });
    }
    claims.push(claim);
    Ok(Users { leased, killer: Some(killer), _claims: claims })
}

/// Users that belong to somebody: accounts, groups, and owners of processes.
fn taken() -> Result<Vec<u32>, Unfit> {
    let mut taken = Vec::new();
    for path in ["/etc/passwd", "/etc/group"] {
        // An image made from scratch has neither.
        let Ok(text) = fs::read_to_string(path) else { continue };
        taken.extend(text.lines().filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok()));
    }
    let processes = fs::read_dir("/proc").map_err(|error| Unfit::Read { path: "/proc", error })?;
    taken.extend(processes.flatten().filter_map(|entry| Some(entry.metadata().ok()?.uid())));
    Ok(taken)
}

/// Whether a line of an id map (`inside outside count`) covers `id`.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (inside, count) = (numbers.next(), numbers.nth(1));
        inside.zip(count).is_some_and(|(inside, count)| {
            (inside..inside.saturating_add(count)).contains(&u64::from(id))
        })
    })
}

/// Claims a user for this process: two supervisors that leased the same one
/// would kill each other's requests. The kernel takes the claim back when the
/// process ends.
fn claim(uid: u32) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("cmp-supervisor/uid/{uid}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Makes and locks the directory for workspaces. Where all share a user, it
/// belongs to that user.
pub(super) fn root(setup: &Setup) -> Result<Root, Unfit> {
    let path = Path::new(&setup.work_dir).join(ROOT);
    let unfit = |error| Unfit::WorkDir { path: path.clone(), error, uid: geteuid() };
    fs::DirBuilder::new().recursive(true).mode(ROOT_MODE).create(&path).map_err(unfit)?;
    let file = File::open(&path).map_err(unfit)?;
    if setup.identities() == Identities::Shared && geteuid().is_root() {
        fchown(&file, Some(setup.shared_uid), Some(setup.shared_uid)).map_err(unfit)?;
    }
    // The mode at creation was subject to the umask.
    file.set_permissions(fs::Permissions::from_mode(ROOT_MODE)).map_err(unfit)?;
    let directory = OwnedFd::from(file.try_clone().map_err(unfit)?);
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_held| Unfit::WorkDirTaken { path: path.clone() })?;
    let path = path.canonicalize().map_err(unfit)?;
    Ok(Root { path, directory, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_looked_up_in_every_line_of_a_map() {
        let map = "         0     100000      60000\n     60706       5000          2\n";
        assert!(is_mapped(map, 0) && is_mapped(map, 59_999) && is_mapped(map, 60_707));
        assert!(!is_mapped(map, 60_000) && !is_mapped(map, 60_708));
    }

    #[test]
    fn a_user_is_claimed_once() {
        let uid = u32::MAX - 7;
        let claimed = claim(uid);
        assert!(claimed.is_some() && claim(uid).is_none());
        drop(claimed);
        assert!(claim(uid).is_some());
    }

    #[test]
    fn a_work_directory_belongs_to_one_supervisor() {
        let directory = tempfile::tempdir().unwrap();
        let work_dir = directory.path().to_string_lossy().into_owned();
        let setup = Setup { work_dir, ..Setup::default() };
        let first = root(&setup).unwrap();
        assert!(matches!(root(&setup), Err(Unfit::WorkDirTaken { .. })));
        drop(first);
        assert!(root(&setup).is_ok());
    }
}
