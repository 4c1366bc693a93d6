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
    sys::resource::{Resource, setrlimit},
    unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid},
};

use super::{ending::Found, kill::drop_capabilities};
use crate::sandbox::{
    shared::Shared,
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

/// Runs in a child: becomes `user`, and unless the user has other processes
/// leaves its caches to the next request and removes everything in `workspace`,
/// a directory in `root`.
pub(super) fn clean(
    root: &OwnedFd,
    workspace: &str,
    user: Option<Uid>,
    shared: Option<&Shared>,
) -> i32 {
    if let Some(user) = user {
        if become_user(user, shared.and_then(|shared| shared.group)).is_err() {
            return FILES;
        }
        if has_others(user) {
            return PROCESSES;
        }
    }
    if let Some(shared) = shared {
        share::hand_on(shared);
    }
    match remove::contents(root, workspace) {
        Ok(()) => NOTHING,
        Err(_) => FILES,
    }
}

fn become_user(user: Uid, further: Option<Gid>) -> Result<(), Errno> {
    // With no process allowed, changing to a user that has one leaves a mark,
    // which execve(2) answers with EAGAIN. It costs two system calls, where
    // reading /proc costs ten microseconds for every process of the machine.
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    let group = Gid::from_raw(user.as_raw());
    setgroups(further.as_slice())?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    drop_capabilities()
}

fn has_others(user: Uid) -> bool {
    // The limit counts per user of the node, and another Pod may use the same
    // range: only what is visible here is ours to wait for.
    is_marked() && is_seen(user)
}

fn is_marked() -> bool {
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
