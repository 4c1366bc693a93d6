//! Finds out whether a UID owns processes.

use std::{
    convert::Infallible,
    ffi::CStr,
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
};

use cmp_procfs::{Fields, is_gone};
use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Uid, execve},
};

use crate::kernel::{
    fork::{SingleThreaded, close_all_but},
    privilege::{change_user, drop_capabilities},
};

/// Methods to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessCheck {
    /// Use the kernel's mark, which it sets on a process that switches to a UID
    /// with processes. `/proc` is read only if the mark is set.
    NprocMark,
    /// Always read `/proc`. Slow, but correct on kernels that do not enforce
    /// `RLIMIT_NPROC`.
    Listing,
}

impl ProcessCheck {
    /// Tests with two processes of `user`, which has none, whether the mark is
    /// reliable.
    pub(super) fn of(fork: SingleThreaded, user: Uid) -> Self {
        let has_nproc_mark = || i32::from(!second_has_mark(fork, user).unwrap_or(false));
        let status = fork.fork(has_nproc_mark).ok().and_then(|child| waitpid(child, None).ok());
        match status {
            Some(WaitStatus::Exited(_, 0)) => Self::NprocMark,
            _ => Self::Listing,
        }
    }
}

/// Runs in a child. Returns `None` if the test fails.
fn second_has_mark(fork: SingleThreaded, user: Uid) -> Option<bool> {
    let (mut own, mut theirs) = UnixStream::pair().ok()?;
    let first = fork.fork(|| i32::from(stay(user, &mut theirs).is_none())).ok()?;
    drop(theirs);
    let is_there = own.read_exact(&mut [0]).is_ok();
    let has_nproc_mark = is_there && become_user(user).is_ok() && has_nproc_mark();
    // Ends the first process.
    drop(own);
    waitpid(first, None).ok()?;
    Some(has_nproc_mark)
}

/// Runs as `user` until the other end is closed.
fn stay(user: Uid, other: &mut UnixStream) -> Option<()> {
    close_all_but([other.as_fd()]).ok()?;
    become_user(user).ok()?;
    other.write_all(&[0]).ok()?;
    other.read_to_end(&mut Vec::new()).ok().map(drop)
}

/// Switches to a UID permanently. The kernel marks this process if the UID owns
/// other processes.
fn become_user(user: Uid) -> Result<(), Errno> {
    // With a limit of 0, switching to a UID that owns a process marks this one,
    // and execve(2) then returns EAGAIN. This takes two system calls. Reading
    // /proc takes ten microseconds for each process of the node.
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    change_user(user, &[])?;
    drop_capabilities()
}

/// Returns true if the last change of the UID left a mark.
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
    let Ok(pids) = cmp_procfs::pids() else { return true };
    others(pids, user).next().is_some()
}

/// The visible processes of the UID.
pub(super) fn visible_processes(user: Uid) -> impl Iterator<Item = u32> {
    others(cmp_procfs::pids().unwrap_or_default(), user)
}

fn others(pids: Vec<u32>, user: Uid) -> impl Iterator<Item = u32> {
    let own = std::process::id();
    pids.into_iter().filter(move |pid| *pid != own && may_be_of(*pid, user))
}

/// Returns true if the process belongs to the UID or cannot be read.
fn may_be_of(pid: u32, user: Uid) -> bool {
    match Fields::status(pid) {
        Ok(status) => status.id("Uid").is_none_or(|real| real == user.as_raw()),
        Err(error) => !is_gone(&error),
    }
}
