//! Finds out whether a UID owns processes.

use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
};

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::Uid,
};

use super::clean::{become_user, has_nproc_mark};
use crate::kernel::fork::{SingleThreaded, close_all_but};

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
