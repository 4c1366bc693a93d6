//! A process tree, a file system and IPC objects of a request's own.
//!
//! Two processes stand between the spawner and a worker: a *warden* outside the
//! namespaces, whose end the spawner sees, and an *init* inside, with whose end
//! the kernel ends everything else there.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getppid, setsid},
};

use super::{
    Job, Site,
    guard::{END, end_as},
};
use crate::sandbox::fork::{self, SingleThreaded};

mod root;

const NEW: CloneFlags = CloneFlags::CLONE_NEWPID
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS);

/// Whether namespaces can be made here.
pub(in crate::sandbox) fn probe(fork: SingleThreaded) -> io::Result<()> {
    let child = fork.fork(|| unshare(NEW).map_or_else(|errno| errno as i32, |()| 0))?;
    let status = waitpid(child, None)?;
    if let WaitStatus::Exited(_, errno) = status {
        return if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) };
    }
    Err(io::ErrorKind::Other.into())
}

/// Does a job in namespaces of its own, and ends as it did.
pub(super) fn enter(job: &mut Job<'_>) -> i32 {
    match ward(job) {
        Ok(status) => end_as(status),
        Err(error) => job.fail("make namespaces", error),
    }
}

/// The warden: makes the namespaces and waits for their init.
fn ward(job: &mut Job<'_>) -> io::Result<WaitStatus> {
    let spawner = getppid();
    setsid()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != spawner {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (mut verdict, told) = UnixStream::pair()?;
    unshare(NEW)?;
    let signals: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, END].into_iter().collect();
    signals.thread_block()?;
    let init = job.site.fork.fork(|| init(job, told))?;
    loop {
        let signal = signals.wait()?;
        if signal == Signal::SIGTERM {
            kill(init, Signal::SIGTERM)?;
        } else if signal == END {
            kill(init, Signal::SIGKILL)?;
        }
        let status = waitpid(init, Some(WaitPidFlag::WNOHANG))?;
        if matches!(status, WaitStatus::Exited(..)) {
            let mut status = [0; 4];
            verdict.set_nonblocking(true)?;
            verdict.read_exact(&mut status)?;
            return Ok(WaitStatus::from_raw(init, i32::from_ne_bytes(status))?);
        }
        // An init that was killed took everything with it.
        if matches!(status, WaitStatus::Signaled(..)) {
            return Ok(status);
        }
    }
}

/// The init: arranges the namespaces, reaps, and ends with the worker.
fn init(job: &mut Job<'_>, mut verdict: UnixStream) -> i32 {
    let arranged = prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(io::Error::from)
        .and_then(|()| root::arrange(job.site));
    let status = match arranged {
        Ok(inside) => match work(job, &inside.site()) {
            Ok(status) => status,
            Err(error) => job.fail("start a worker", error),
        },
        Err(error) => job.fail("arrange a file system", error),
    };
    i32::from(verdict.write_all(&status.to_ne_bytes()).is_err())
}

fn work(job: &mut Job<'_>, site: &Site<'_>) -> io::Result<i32> {
    let worker = site.fork.fork(|| job.run(site))?;
    Ok(attend(worker))
}

/// Reaps everybody until the worker has ended; its status as wait(2) gives it.
fn attend(worker: Pid) -> i32 {
    let signals: SigSet = [Signal::SIGCHLD, Signal::SIGTERM].into_iter().collect();
    loop {
        if matches!(signals.wait(), Ok(Signal::SIGTERM)) {
            // Everybody in here; nobody there is as good as everybody told.
            let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
        }
        while let Some(reaped) = fork::reap() {
            if reaped.pid == worker {
                return reaped.status;
            }
        }
    }
}
