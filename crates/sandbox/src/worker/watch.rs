//! Waits for a command and kills its leftover processes.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

use nix::{
    libc,
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::Job;
use crate::{
    kernel::{fork, no_process},
    wire::plan::{Answer, Exited},
};

/// The spawner's order to kill everything at once.
pub(crate) const KILL_ORDER: Signal = Signal::SIGUSR1;

/// Exit code of a process that should end by a signal but does not.
const UNFIT: i32 = 126;

/// Exit code of a process between the spawner and a command that could not create the next
/// process. No command gives it to them: a tenant could have the largest request ended.
const NO_PROCESS: i32 = 203;

/// Position of the exit code in a status as returned by wait4(2).
const CODE_SHIFT: i32 = 8;

/// The processes that a watcher signals.
#[derive(Clone, Copy, Debug)]
pub(super) enum SignalScope {
    /// All processes it may signal: in a Landlock domain or PID namespace,
    /// these are exactly the command's processes.
    All,
    /// Its children. Orphans become its children, so all processes are reached
    /// in the end.
    Children,
}

/// The signals that a watcher waits for. Block them before the command starts.
pub(super) fn watched() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM, KILL_ORDER].into_iter().collect()
}

impl SignalScope {
    /// Reports the command's end at once. Returns its status when all its
    /// descendants have ended.
    pub(super) fn watch(self, command: Pid, job: &mut Job<'_>) -> io::Result<i32> {
        let signals = watched();
        let (mut status, mut is_ending) = (None, false);
        loop {
            let signal = signals.wait()?;
            if signal == Signal::SIGTERM {
                self.signal(Signal::SIGTERM);
            } else if signal == KILL_ORDER {
                is_ending = true;
                self.signal(Signal::SIGKILL);
            }
            for reaped in fork::reap_some() {
                if reaped.pid == command {
                    status = Some(reaped.status);
                    let exited = Exited { status: reaped.status, used: reaped.into() };
                    job.answer(Answer::Exited(exited));
                }
            }
            match status {
                Some(status) if !has_children() => return Ok(passed_on(status)),
                // Repeated, because a killed spawner sends the order only once,
                // and orphans arrive when their parents end.
                Some(_) | None if is_ending => self.signal(Signal::SIGKILL),
                Some(_) | None => {}
            }
        }
    }

    fn signal(self, signal: Signal) {
        match self {
            Self::All => {
                // An error means that there is no process.
                let _ = kill(Pid::from_raw(-1), signal);
            }
            Self::Children => {
                for child in cmp_procfs::children() {
                    // The child may have ended meanwhile.
                    let _ = kill(Pid::from_raw(child), signal);
                }
            }
        }
    }
}

fn has_children() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look).is_ok()
}

/// The status of a command that a watcher ends with. The supervisor has the real one already.
fn passed_on(status: i32) -> i32 {
    if lacked_process(status) { UNFIT << CODE_SHIFT } else { status }
}

/// Returns true if a watcher with this status could not create a process, because a limit of
/// processes is reached.
pub(crate) fn lacked_process(status: i32) -> bool {
    ExitStatus::from_raw(status).code() == Some(NO_PROCESS)
}

/// Reports a failed step of a watcher. Returns the status to end with.
pub(super) fn failed(job: &mut Job<'_>, what: &'static str, error: io::Error) -> i32 {
    let (error, code) = explained(error);
    let untold = job.fail(what, error);
    code.unwrap_or(untold) << CODE_SHIFT
}

/// Adds the limit of processes to an error if the kernel means it, and the exit code that tells
/// the spawner.
fn explained(error: io::Error) -> (io::Error, Option<i32>) {
    if no_process::is_limit(&error) {
        return (io::Error::other(no_process::reason(&error)), Some(NO_PROCESS));
    }
    (error, None)
}

/// Added to the signal that ended a worker, in the exit code of its init.
const SIGNALLED: i32 = 128;

/// The exit code of an init for the status of its worker: a signal that it sends itself does
/// not end it.
pub(super) fn init_code(status: i32) -> i32 {
    let status = ExitStatus::from_raw(status);
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    status.code().or(signalled).unwrap_or(UNFIT)
}

/// The status of a worker whose init ended with this one. That of a command may differ, and
/// the init has sent it to the supervisor.
pub(crate) fn told_by_init(status: i32) -> i32 {
    let signal = ExitStatus::from_raw(status).code().and_then(|code| code.checked_sub(SIGNALLED));
    let is_signal = |signal: &i32| (1..=libc::SIGRTMAX()).contains(signal);
    signal.filter(is_signal).unwrap_or(status)
}

/// Ends this process with the same exit code or signal as another one.
pub(super) fn end_as(status: i32) -> i32 {
    let status = ExitStatus::from_raw(status);
    if let Some(code) = status.code() {
        return code;
    }
    if let Some(signal) = status.signal() {
        fork::end_by(signal);
    }
    UNFIT
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_limit_of_processes_is_named_and_told_to_the_spawner() {
        let (error, code) = explained(Errno::EAGAIN.into());
        assert!(error.to_string().contains("pids.max"), "{error}");
        assert!(lacked_process(code.unwrap() << CODE_SHIFT));
        let (error, code) = explained(Errno::EPERM.into());
        assert_eq!((error.raw_os_error(), code), (Some(Errno::EPERM as i32), None));
    }

    #[test]
    fn an_init_tells_how_its_worker_ended() {
        let killed = Signal::SIGKILL as i32;
        for status in [0, killed, 1 << CODE_SHIFT, NO_PROCESS << CODE_SHIFT] {
            assert_eq!(told_by_init(init_code(status) << CODE_SHIFT), status);
        }
        assert_eq!(told_by_init(killed), killed, "of the init itself");
    }

    #[test]
    fn a_command_cannot_tell_the_spawner_that_it_lacked_a_process() {
        for status in 0..=u16::MAX {
            let status = i32::from(status);
            assert!(!lacked_process(passed_on(status)), "{status}");
        }
        assert_eq!(passed_on(1 << CODE_SHIFT), 1 << CODE_SHIFT);
    }
}
