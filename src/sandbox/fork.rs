//! The only unsafe code there is: what a process does that makes processes.
//!
//! Only the spawner forks. It has one thread and no runtime, so its children
//! may allocate and use the standard library like any program that just began.

#![expect(unsafe_code, reason = "fork, wait4, signal and _exit have no safe form")]

use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use nix::{
    libc,
    unistd::{ForkResult, Pid, fork},
};

/// Proof that this process has one thread, which is what forking asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SingleThreaded(());

impl SingleThreaded {
    /// Looks once. Whoever holds this must not start a thread afterwards.
    pub(super) fn check() -> io::Result<Self> {
        let threads = fs::read_dir("/proc/self/task")?.count();
        if threads == 1 {
            Ok(Self(()))
        } else {
            Err(io::Error::other(format!("{threads} threads where there should be one")))
        }
    }

    /// Runs `child` in a new process, which ends with what it returns.
    ///
    /// Of the parent's descriptors the child has only its standard ones and
    /// copies of `keep`, in that order. It must not use any other.
    #[expect(clippy::unused_self, reason = "the value is the proof that forking is sound")]
    pub(super) fn fork<const N: usize>(
        self,
        keep: [BorrowedFd<'_>; N],
        child: impl FnOnce([OwnedFd; N]) -> i32,
    ) -> io::Result<Pid> {
        // SAFETY: fork(2) asks that a child of a process with several threads
        // calls only async-signal-safe functions; there is one thread.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(child),
            ForkResult::Child => {
                let code = keep_only(keep).map_or(NO_DESCRIPTORS, child);
                // SAFETY: _exit(2) has no preconditions. Unlike exit(3) it
                // leaves the parent's buffers and exit handlers alone.
                unsafe { libc::_exit(code) }
            }
        }
    }
}

/// Exit code of a child that could not even arrange its descriptors.
const NO_DESCRIPTORS: i32 = 125;

fn keep_only<const N: usize>(keep: [BorrowedFd<'_>; N]) -> Option<[OwnedFd; N]> {
    let copies: Vec<OwnedFd> =
        keep.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>().ok()?;
    let mut kept: Vec<u32> = copies.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = libc::STDERR_FILENO.unsigned_abs() + 1;
    for kept in kept {
        close(first, kept - 1)?;
        first = kept + 1;
    }
    close(first, u32::MAX)?;
    copies.try_into().ok()
}

fn close(first: u32, last: u32) -> Option<()> {
    if first > last {
        return Some(());
    }
    // SAFETY: this is a fresh child, and what its parent owned is never used
    // in it; the copies that are used lie outside the range.
    let result = unsafe { libc::close_range(first, last, 0) };
    (result == 0).then_some(())
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaped {
    pub(super) pid: Pid,
    /// As wait4(2) gives it.
    pub(super) status: i32,
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) max_rss_kib: u64,
}

/// Takes the status of one child that ended, if there is one.
pub(super) fn reap() -> Option<Reaped> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live memory of the right type, which
    // wait4(2) only writes to.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid <= 0 {
        return None;
    }
    // SAFETY: zeros are a valid rusage, and the kernel filled it in.
    let usage = unsafe { usage.assume_init() };
    Some(Reaped {
        pid: Pid::from_raw(pid),
        status,
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or_default(),
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Undoes what Rust does before `main`: programs expect to end quietly when
/// nobody reads their output.
pub(super) fn default_sigpipe() {
    // SAFETY: SIG_DFL is a valid disposition, so no handler can be left dangling.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
