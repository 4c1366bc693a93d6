//! Tells without a process whether an ended request has left processes.
//!
//! The spawner adopts the orphans of its descendants, so every process of a worker
//! stays below it. When the worker has been waited for, what is left of it is a child
//! that the spawner has not created itself.

use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
};

use cmp_procfs::ChildList;
use nix::sys::wait::waitpid;

use crate::kernel::fork::{SingleThreaded, close_all_but};

/// The list of children, if the kernel has one and adds orphans to it.
pub(super) fn list(fork: SingleThreaded) -> Option<ChildList> {
    let list = ChildList::open().ok()?;
    let before = list.read().ok()?;
    let (mut own, mut theirs) = UnixStream::pair().ok()?;
    let parent = fork.fork(|| i32::from(leave_orphan(fork, &mut theirs).is_none())).ok()?;
    drop(theirs);
    waitpid(parent, None).ok()?;
    let is_there = own.read_exact(&mut [0]).is_ok();
    let orphans = list.read().ok()?;
    // Ends the orphan.
    drop(own);
    let orphans: Vec<_> = orphans.into_iter().filter(|pid| !before.contains(pid)).collect();
    for orphan in &orphans {
        waitpid(nix::unistd::Pid::from_raw(i32::try_from(*orphan).ok()?), None).ok()?;
    }
    (is_there && orphans.len() == 1 && list.read().ok()? == before).then_some(list)
}

/// Runs in a child. Leaves a process that ends when the other end is closed.
fn leave_orphan(fork: SingleThreaded, other: &mut UnixStream) -> Option<()> {
    let wait = || {
        let kept = close_all_but([other.as_fd()]).is_ok() && other.write_all(&[0]).is_ok();
        i32::from(!kept || other.read_to_end(&mut Vec::new()).is_err())
    };
    fork.fork(wait).ok().map(drop)
}
