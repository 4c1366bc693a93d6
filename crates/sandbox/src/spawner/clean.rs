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
    kill::{become_killer, end_all},
    process_check::ProcessCheck,
    release::Remaining,
    uid_pool::UidPair,
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
pub(super) fn found(status: i32) -> Remaining {
    match ExitStatus::from_raw(status).code() {
        Some(NOTHING) => Remaining::Nothing,
        Some(PROCESSES) | None => Remaining::Processes,
        Some(_) => Remaining::Files,
    }
}

/// Whose a workspace is.
#[derive(Debug)]
pub(super) struct CleanTarget<'w> {
    /// The user, where it is not this process's own.
    pub(super) tenant: Option<Uid>,
    /// Whom to end the tenant's processes as, if they are to be ended first.
    pub(super) killer: Option<Uid>,
    /// What the tenant shared with others.
    pub(super) shared: Option<&'w SharedCaches>,
    /// How to find out whether the tenant has processes.
    pub(super) process_check: ProcessCheck,
}

/// Runs in a child: ends the tenant's processes, becomes the tenant, and unless
/// it still has processes leaves its caches to the next request and removes
/// everything in `workspace`, a directory in `root`.
pub(super) fn clean(root: &OwnedFd, workspace: &str, target: &CleanTarget<'_>) -> i32 {
    if let Some(tenant) = target.tenant {
        match become_tenant(tenant, target) {
            Ok(()) if has_other_processes(tenant, target.process_check) => return PROCESSES,
            Ok(()) => {}
            Err(found) => return found,
        }
    }
    if let Some(shared) = target.shared {
        share::hand_on(shared);
    }
    match remove::contents(root, workspace) {
        Ok(()) => NOTHING,
        Err(_) => FILES,
    }
}

/// What an error means depends on how far this came.
fn become_tenant(tenant: Uid, target: &CleanTarget<'_>) -> Result<(), i32> {
    prepare(tenant, target.shared.and_then(|shared| shared.group)).map_err(|_refused| FILES)?;
    if let Some(killer) = target.killer {
        let uids = UidPair { killer, tenant };
        let killed = become_killer(uids).and_then(|()| end_all(uids, Signal::SIGKILL));
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

fn has_other_processes(user: Uid, process_check: ProcessCheck) -> bool {
    // The limit counts per user of the node, and another Pod may use the same
    // range: only what is visible here is ours to wait for.
    (process_check == ProcessCheck::Listing || has_nproc_mark()) && has_visible_process(user)
}

/// Whether [`become_user`] left a mark.
pub(super) fn has_nproc_mark() -> bool {
    let none: [&CStr; 0] = [];
    // Asked about before the kernel looks for the file, which is not there.
    let refused: Result<Infallible, Errno> = execve(c"/proc/self/none", &none, &none);
    matches!(refused, Err(Errno::EAGAIN))
}

/// Whether another process of a user is to be seen, or cannot be ruled out.
pub(super) fn has_visible_process(user: Uid) -> bool {
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
