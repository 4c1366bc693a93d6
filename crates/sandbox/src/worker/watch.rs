//! Waits for a command and kills its leftover processes.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::Job;
use crate::{
    kernel::fork,
    wire::plan::{Answer, Exited},
};

/// The spawner's order to kill everything at once.
pub(crate) const KILL_ORDER: Signal = Signal::SIGUSR1;

/// Exit code of a process that should end by a signal but does not.
const UNFIT: i32 = 126;

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
                Some(status) if !has_children() => return Ok(status),
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
