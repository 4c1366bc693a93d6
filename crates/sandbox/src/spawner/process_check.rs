//! How it is found out whether a user has processes.

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

/// Ways to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessCheck {
    /// The kernel marks whoever becomes a user that has a process. Only then is
    /// there a list to be read.
    NprocMark,
    /// The list of all processes: slow, and right where the kernel does not
    /// enforce limits of processes.
    Listing,
}

impl ProcessCheck {
    /// Tries with two processes of `user`, who has none, whether the first way
    /// can be relied on.
    pub(super) fn of(fork: SingleThreaded, user: Uid) -> Self {
        let has_nproc_mark = || i32::from(!second_has_mark(fork, user).unwrap_or(false));
        let status = fork.fork(has_nproc_mark).ok().and_then(|child| waitpid(child, None).ok());
        match status {
            Some(WaitStatus::Exited(_, 0)) => Self::NprocMark,
            _ => Self::Listing,
        }
    }
}

/// Runs in a child. `None` if it cannot be tried.
fn second_has_mark(fork: SingleThreaded, user: Uid) -> Option<bool> {
    let (mut own, mut theirs) = UnixStream::pair().ok()?;
    let first = fork.fork(|| i32::from(stay(user, &mut theirs).is_none())).ok()?;
    drop(theirs);
    let is_there = own.read_exact(&mut [0]).is_ok();
    let has_nproc_mark = is_there && become_user(user).is_ok() && has_nproc_mark();
    // The first one goes.
    drop(own);
    waitpid(first, None).ok()?;
    Some(has_nproc_mark)
}

/// Is a process of `user` until nobody is at the other end any more.
fn stay(user: Uid, other: &mut UnixStream) -> Option<()> {
    close_all_but([other.as_fd()]).ok()?;
    become_user(user).ok()?;
    other.write_all(&[0]).ok()?;
    other.read_to_end(&mut Vec::new()).ok().map(drop)
}
