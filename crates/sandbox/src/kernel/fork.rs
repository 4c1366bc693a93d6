//! The only unsafe code there is: what a process does that makes processes.
//!
//! Only the spawner and its helpers fork. They have one thread and no runtime,
//! so their children may allocate and use the standard library like any program
//! that just began.

#![expect(unsafe_code, reason = "fork, wait4, signal, close_range and _exit have no safe form")]

use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use nix::{
    libc,
    sys::signal::Signal,
    unistd::{ForkResult, Pid, fork},
};

use crate::wire::plan::RawUsage;

/// Proof that this process has one thread, which is what forking asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleThreaded(());

impl SingleThreaded {
    /// Looks once. Whoever holds this must not start a thread afterwards.
    pub(crate) fn check() -> io::Result<Self> {
        let threads = fs::read_dir("/proc/self/task")?.count();
        if threads == 1 {
            Ok(Self(()))
        } else {
            Err(io::Error::other(format!("{threads} threads where there should be one")))
        }
    }

    /// Runs `child` in a new process, which ends with what it returns.
    #[expect(clippy::unused_self, reason = "the value is the proof that forking is sound")]
    pub(crate) fn fork(self, child: impl FnOnce() -> i32) -> io::Result<Pid> {
        // SAFETY: fork(2) asks that a child of a process with several threads
        // calls only async-signal-safe functions; there is one thread.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(child),
            ForkResult::Child => {
                let code = child();
                // SAFETY: _exit(2) has no preconditions. Unlike exit(3) it
                // leaves the parent's buffers and exit handlers alone.
                unsafe { libc::_exit(code) }
            }
        }
    }
}

/// Closes every descriptor but the standard ones and `kept`.
///
/// For a process that was just forked: what else its parent had open is owned by
/// values that live on in the copy of the parent's memory, and that the process
/// must not use again.
pub(crate) fn close_all_but<'k>(kept: impl IntoIterator<Item = BorrowedFd<'k>>) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.into_iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = libc::STDERR_FILENO.unsigned_abs() + 1;
    for kept in kept {
        close(first, kept.saturating_sub(1))?;
        first = first.max(kept + 1);
    }
    close(first, u32::MAX)
}

fn close(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: close_range(2) takes numbers only; that nobody uses what they
    // stood for is what `close_all_but` asks of its caller.
    let result = unsafe { libc::close_range(first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    /// As wait4(2) gives it.
    pub(crate) status: i32,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_kib: u64,
}

/// Takes the status of one child that ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
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

impl From<Reaped> for RawUsage {
    fn from(reaped: Reaped) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let Reaped { user, system, max_rss_kib, .. } = reaped;
        Self { user_us: micros(user), system_us: micros(system), max_rss_kib }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Gives a signal its default action.
pub(crate) fn default_action(signal: Signal) {
    set_default(signal as i32);
}

/// Gives every signal its default action: commands keep ignoring what this
/// process ignores, because of Rust (SIGPIPE) or its parent (`nohup`).
pub(crate) fn default_actions() {
    // SIGKILL, SIGSTOP and the C library's own signals cannot be changed.
    (1..=libc::SIGRTMAX()).for_each(set_default);
}

fn set_default(signal: i32) {
    // SAFETY: SIG_DFL is a valid disposition, so no handler can be left dangling.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
