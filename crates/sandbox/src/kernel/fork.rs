//! Unsafe code: creating processes and waiting for them.
//!
//! Only the spawner and its children fork. They have one thread and no async
//! runtime, so a forked child may allocate and use the standard library
//! normally.

#![expect(
    unsafe_code,
    reason = "fork, wait4, ptrace, signal, kill, close_range and _exit have no safe form, or none \
              for real-time signals"
)]

use std::{
    fs, io, iter,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use nix::{
    libc,
    sched::CloneFlags,
    sys::signal::{SigSet, Signal, kill},
    unistd::{ForkResult, Pid, fork, getpid},
};

use crate::wire::plan::RawUsage;

/// Proof that this process has one thread, which `fork` requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleThreaded(());

impl SingleThreaded {
    /// For a test that creates no process: tests run in threads.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        Self(())
    }

    /// Checks once. The holder must not start a thread afterwards.
    pub(crate) fn check() -> io::Result<Self> {
        let threads = fs::read_dir("/proc/self/task")?.count();
        if threads == 1 {
            Ok(Self(()))
        } else {
            Err(io::Error::other(format!("found {threads} threads, expected one")))
        }
    }

    /// Runs `child` in a new process, which exits with its result.
    #[expect(clippy::unused_self, reason = "the value is the proof that forking is sound")]
    pub(crate) fn fork(self, child: impl FnOnce() -> i32) -> io::Result<Pid> {
        // SAFETY: after fork(2), the child of a multi-threaded process may call
        // only async-signal-safe functions; this process has one thread. The child never
        // returns to the caller: it exits below, and release builds abort at a panic.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(child),
            ForkResult::Child => {
                let code = child();
                // SAFETY: _exit(2) has no preconditions. Unlike exit(3), it
                // does not flush the parent's buffers or run its exit handlers.
                unsafe { libc::_exit(code) }
            }
        }
    }
}

/// Starts the child in the cgroup of this descriptor; see clone(2).
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The place where a process begins, if it is not that of its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth<'b> {
    /// Moving it there later would take far longer.
    pub(crate) cgroup: Option<BorrowedFd<'b>>,
    /// New namespaces, by the flags of clone(2). In a new one of processes, it is the init.
    pub(crate) namespaces: CloneFlags,
}

impl Birth<'_> {
    /// The place of its parent.
    pub(crate) const PLAIN: Self = Self { cgroup: None, namespaces: CloneFlags::empty() };
}

impl SingleThreaded {
    /// Runs `child` in a new process that begins there.
    ///
    /// The C library does not notice the call. In the child, its functions that
    /// signal the calling thread, such as raise(3), do not reach it.
    pub(crate) fn fork_at(self, birth: Birth<'_>, child: impl FnOnce() -> i32) -> io::Result<Pid> {
        let pid = match birth {
            Birth { cgroup: None, namespaces } if namespaces.is_empty() => return self.fork(child),
            Birth { cgroup: None, namespaces } => clone(namespaces),
            Birth { cgroup: Some(cgroup), namespaces } => clone_into(cgroup, namespaces),
        };
        match i32::try_from(pid).unwrap_or(-1) {
            0 => {
                let code = child();
                // SAFETY: as in `fork`.
                unsafe { libc::_exit(code) }
            }
            pid if pid > 0 => Ok(Pid::from_raw(pid)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// clone(2). A profile of a container's runtime that forbids `clone3` can allow it.
fn clone(namespaces: CloneFlags) -> libc::c_long {
    let (flags, zero) = (namespaces.bits() | libc::SIGCHLD, 0_usize);
    // SAFETY: on x86-64 and arm64, the flags come first. All addresses are zero, so the kernel
    // writes nowhere. For the rest, see `clone_into`.
    unsafe { libc::syscall(libc::SYS_clone, i64::from(flags), zero, zero, zero, zero) }
}

/// clone3(2).
fn clone_into(cgroup: BorrowedFd<'_>, namespaces: CloneFlags) -> libc::c_long {
    let arguments = libc::clone_args {
        flags: CLONE_INTO_CGROUP | u64::from(namespaces.bits().unsigned_abs()),
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: u64::from(cgroup.as_raw_fd().unsigned_abs()),
    };
    let pointer = &raw const arguments;
    // SAFETY: the structure is valid and has this size; its addresses are zero, so the
    // kernel writes nowhere. Without CLONE_VM and with no stack, this is fork(2): the
    // child has a copy of all memory, and its own table of descriptors. This process
    // has one thread, so no lock of the C library is held.
    unsafe { libc::syscall(libc::SYS_clone3, pointer, size_of_val(&arguments)) }
}

/// Closes every descriptor except 0, 1, 2 and `kept`.
///
/// Only for a process that was just forked. Values in its copy of the parent's
/// memory still own the closed descriptors and must not be used again.
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

/// Fails where no range of descriptors can be closed.
pub(crate) fn check_closing() -> io::Result<()> {
    close(u32::MAX, u32::MAX)
}

fn close(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: close_range(2) takes numbers only. The caller of `close_all_but`
    // ensures that nobody uses the closed descriptors.
    let result = unsafe { libc::close_range(first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    /// As returned by wait4(2).
    pub(crate) status: i32,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_kib: u64,
}

/// Most children that are collected before other work. Processes that a tenant leaves can
/// end faster than they are collected.
const MOST_REAPED: usize = 64;

/// Collects children that have ended. If there may be more, SIGCHLD arrives again. The
/// caller must block that signal, and does other work first.
pub(crate) fn reap_some() -> impl Iterator<Item = Reaped> {
    let mut left = MOST_REAPED;
    iter::from_fn(move || {
        let Some(fewer) = left.checked_sub(1) else {
            // Never refused to a process itself.
            let _ = kill(Pid::this(), Signal::SIGCHLD);
            return None;
        };
        left = fewer;
        reap()
    })
}

/// Collects one child that has ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers refer to live memory of the right type, and
    // wait4(2) only writes to it.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid <= 0 {
        return None;
    }
    // SAFETY: all zeros are a valid rusage, and the kernel has filled it in.
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

/// The next event of a child or of a traced process: its ID, and its status as returned
/// by waitpid(2).
pub(crate) fn wait_traced() -> io::Result<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: the pointer refers to a live integer, and waitpid(2) only writes to it.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((Pid::from_raw(pid), status)) }
}

/// The way in which a traced process continues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resume {
    /// It stops at its next system call.
    UntilCall,
    /// It does not stop at system calls.
    Freely,
}

/// Lets a traced process that has stopped continue, with a signal unless it is 0. An
/// error means that it has just been killed.
pub(crate) fn resume(pid: Pid, how: Resume, signal: i32) {
    let request = match how {
        Resume::UntilCall => libc::PTRACE_SYSCALL,
        Resume::Freely => libc::PTRACE_CONT,
    };
    let (nowhere, signal) = (0_usize, libc::c_long::from(signal));
    // SAFETY: both requests take numbers only, and change no memory of this process.
    unsafe { libc::ptrace(request, pid.as_raw(), nowhere, signal) };
}

/// Ends this process by a signal, if its default action is to end it.
pub(crate) fn end_by(signal: i32) {
    set_default(signal);
    // SIGKILL and SIGSTOP cannot be blocked.
    let _ = SigSet::all().thread_unblock();
    // Not raise(3): this process may be the child of `fork_at`.
    // SAFETY: kill(2) takes numbers only.
    unsafe { libc::kill(getpid().as_raw(), signal) };
}

/// Restores the default action of every signal. Otherwise commands would ignore
/// the signals that this process ignores, because of Rust (SIGPIPE) or its
/// parent (`nohup`).
pub(crate) fn default_actions() {
    // SIGKILL, SIGSTOP and the C library's own signals cannot be changed.
    (1..=libc::SIGRTMAX()).for_each(set_default);
}

/// Makes a write beyond the limit of file sizes an error, and not the end of this process.
pub(crate) fn ignore_large_files() {
    // SAFETY: SIG_IGN is a valid action, so no pointer to a handler can dangle.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Undoes [`ignore_large_files`] for a command, whose own limit the signal tells.
pub(crate) fn end_at_large_files() {
    set_default(libc::SIGXFSZ);
}

fn set_default(signal: i32) {
    // SAFETY: SIG_DFL is a valid action, so no pointer to a handler can dangle.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
