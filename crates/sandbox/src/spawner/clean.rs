//! Removing what a lease leaves on disk, as the user it belongs to.

use std::{
    convert::Infallible,
    ffi::CStr,
    fs, io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        signal::Signal,
    },
    unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid},
};

use super::{
    census::Census,
    ending::Found,
    kill::{become_killer, end_all},
    users::Pair,
};
use crate::kernel::privilege::drop_capabilities;
use crate::{
    wire::shared::SharedCaches,
    worker::{remove, share},
};

const NOTHING: i32 = 0;
const PROCESSES: i32 = 1;
const FILES: i32 = 2;

/// What a cleaner's exit code says. Whoever could kill one is still there.
pub(super) fn found(status: i32) -> Found {
    match ExitStatus::from_raw(status).code() {
        Some(NOTHING) => Found::Nothing,
        Some(PROCESSES) | None => Found::Processes,
        Some(_) => Found::Files,
    }
}

/// Whose a workspace is.
#[derive(Debug)]
pub(super) struct Whose<'w> {
    /// The user, where it is not this process's own.
    pub(super) tenant: Option<Uid>,
    /// Whom to end the tenant's processes as, if they are to be ended first.
    pub(super) killer: Option<Uid>,
    /// What the tenant shared with others.
    pub(super) shared: Option<&'w SharedCaches>,
    /// How to find out whether the tenant has processes.
    pub(super) census: Census,
}

/// Runs in a child: ends the tenant's processes, becomes the tenant, and unless
/// it still has processes leaves its caches to the next request and removes
/// everything in `workspace`, a directory in `root`.
pub(super) fn clean(root: &OwnedFd, workspace: &str, whose: &Whose<'_>) -> i32 {
    if let Some(tenant) = whose.tenant {
        match become_tenant(tenant, whose) {
            Ok(()) if has_others(tenant, whose.census) => return PROCESSES,
            Ok(()) => {}
            Err(found) => return found,
        }
    }
    if let Some(shared) = whose.shared {
        share::hand_on(shared);
    }
    match remove::contents(root, workspace) {
        Ok(()) => NOTHING,
        Err(_) => FILES,
    }
}

/// What an error means depends on how far this came.
fn become_tenant(tenant: Uid, whose: &Whose<'_>) -> Result<(), i32> {
    prepare(tenant, whose.shared.and_then(|shared| shared.group)).map_err(|_refused| FILES)?;
    if let Some(killer) = whose.killer {
        let users = Pair { killer, tenant };
        let killed = become_killer(users).and_then(|()| end_all(users, Signal::SIGKILL));
        killed.map_err(|_not_let| PROCESSES)?;
    }
    change(tenant).map_err(|_refused| FILES)
}

/// Becomes a user for good, marked by the kernel if it has other processes.
pub(super) fn become_user(user: Uid) -> Result<(), Errno> {
    prepare(user, None)?;
    change(user)
}

fn change(user: Uid) -> Result<(), Errno> {
    setresuid(user, user, user)?;
    drop_capabilities()
}

fn prepare(tenant: Uid, further: Option<Gid>) -> Result<(), Errno> {
    // With no process allowed, changing to a user that has one leaves a mark,
    // which execve(2) answers with EAGAIN. It costs two system calls, where
    // reading /proc costs ten microseconds for every process of the machine.
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    let group = Gid::from_raw(tenant.as_raw());
    setgroups(further.as_slice())?;
    setresgid(group, group, group)
}

fn has_others(user: Uid, census: Census) -> bool {
    // The limit counts per user of the node, and another Pod may use the same
    // range: only what is visible here is ours to wait for.
    (census == Census::Listing || is_marked()) && is_seen(user)
}

/// Whether [`become_user`] left a mark.
pub(super) fn is_marked() -> bool {
    let none: [&CStr; 0] = [];
    // Asked about before the kernel looks for the file, which is not there.
    let refused: Result<Infallible, Errno> = execve(c"/proc/self/none", &none, &none);
    matches!(refused, Err(Errno::EAGAIN))
}

/// Whether another process of a user is to be seen, or cannot be ruled out.
pub(super) fn is_seen(user: Uid) -> bool {
    let own = std::process::id().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().any(|entry| {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        else {
            return false;
        };
        pid != own && may_be_of(pid, user)
    })
}

/// Whether a process is a user's, as far as one can tell: what cannot be read
/// may be.
fn may_be_of(pid: &str, user: Uid) -> bool {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => status,
        Err(error) => return !is_gone(&error),
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let real = line.and_then(|ids| ids.split_whitespace().next()?.parse().ok());
    real.is_none_or(|real: u32| real == user.as_raw())
}

/// It ended meanwhile.
fn is_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ESRCH))
}
