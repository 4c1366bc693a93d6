//! Removes a lease's files, running as the UID that owns them.

use std::{
    convert::Infallible,
    ffi::CStr,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
};

use cmp_procfs::{Fields, is_gone};
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

/// Reads a cleaner's exit code. If a process killed the cleaner, that process
/// still exists.
pub(super) fn found(status: i32) -> Remaining {
    match ExitStatus::from_raw(status).code() {
        Some(NOTHING) => Remaining::Nothing,
        Some(PROCESSES) | None => Remaining::Processes,
        Some(_) => Remaining::Files,
    }
}

/// The workspace to clean and the UIDs involved.
#[derive(Debug)]
pub(super) struct CleanTarget<'w> {
    /// The tenant's UID; `None` in tiers without separate UIDs.
    pub(super) tenant: Option<Uid>,
    /// UID for killing the tenant's processes first; `None` if that is not
    /// needed.
    pub(super) killer: Option<Uid>,
    /// Caches that the tenant used.
    pub(super) shared: Option<&'w SharedCaches>,
    /// Method to find out whether the tenant has processes.
    pub(super) process_check: ProcessCheck,
}

/// Runs in a child. Kills the tenant's processes if ordered to and switches to
/// the tenant's UID. If the tenant has no process left, hands its caches on and
/// removes everything in `workspace`, a directory in `root`.
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

/// Each error maps to the exit code of the step that failed.
fn become_tenant(tenant: Uid, target: &CleanTarget<'_>) -> Result<(), i32> {
    prepare(tenant, target.shared.and_then(|shared| shared.group)).map_err(|_refused| FILES)?;
    if let Some(killer) = target.killer {
        let uids = UidPair { killer, tenant };
        let killed = become_killer(uids).and_then(|()| end_all(uids, Signal::SIGKILL));
        killed.map_err(|_not_let| PROCESSES)?;
    }
    change(tenant).map_err(|_refused| FILES)
}

/// Switches to a UID permanently. The kernel marks this process if the UID owns
/// other processes.
pub(super) fn become_user(user: Uid) -> Result<(), Errno> {
    prepare(user, None)?;
    change(user)
}

fn change(user: Uid) -> Result<(), Errno> {
    setresuid(user, user, user)?;
    drop_capabilities()
}

fn prepare(tenant: Uid, further: Option<Gid>) -> Result<(), Errno> {
    // With a limit of 0, switching to a UID that owns a process marks this one,
    // and execve(2) then returns EAGAIN. This takes two system calls. Reading
    // /proc takes ten microseconds for each process of the node.
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    let group = Gid::from_raw(tenant.as_raw());
    setgroups(further.as_slice())?;
    setresgid(group, group, group)
}

fn has_other_processes(user: Uid, process_check: ProcessCheck) -> bool {
    // The kernel counts processes of the whole node, and another Pod may use
    // the same UIDs. Only visible processes can belong to the tenant.
    (process_check == ProcessCheck::Listing || has_nproc_mark()) && has_visible_process(user)
}

/// Returns true if [`become_user`] left a mark.
pub(super) fn has_nproc_mark() -> bool {
    let none: [&CStr; 0] = [];
    // The kernel checks the mark before it searches the file, which does not
    // exist.
    let refused: Result<Infallible, Errno> = execve(c"/proc/self/none", &none, &none);
    matches!(refused, Err(Errno::EAGAIN))
}

/// Returns true if another process of the UID is visible or cannot be ruled
/// out.
pub(super) fn has_visible_process(user: Uid) -> bool {
    let own = std::process::id();
    let Ok(pids) = cmp_procfs::pids() else { return true };
    pids.into_iter().any(|pid| pid != own && may_be_of(pid, user))
}

/// Returns true if the process belongs to the UID or cannot be read.
fn may_be_of(pid: u32, user: Uid) -> bool {
    match Fields::status(pid) {
        Ok(status) => status.id("Uid").is_none_or(|real| real == user.as_raw()),
        Err(error) => !is_gone(&error),
    }
}
