//! Watching over a command, and over what it leaves behind.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill, raise},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::Job;
use crate::{
    kernel::fork,
    wire::plan::{Answer, Exited},
};

/// The spawner's order to end everything at once.
pub(crate) const KILL_ORDER: Signal = Signal::SIGUSR1;

/// What a process ends with that cannot end as another did.
const UNFIT: i32 = 126;

/// Whom a watcher's signals meet.
#[derive(Clone, Copy, Debug)]
pub(super) enum SignalScope {
    /// Everybody it may signal, because that is nobody else's: what came of the
    /// command, in a Landlock domain or in a process namespace.
    All,
    /// Its children. Orphans become children, so that in the end it is the same.
    Children,
}

/// The signals a watcher waits for. To be blocked before the command starts.
pub(super) fn watched() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM, KILL_ORDER].into_iter().collect()
}

impl SignalScope {
    /// Tells of the command's end as soon as it has come, and returns its status
    /// when everything that came of it is gone, by itself or by order.
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
            while let Some(reaped) = fork::reap() {
                if reaped.pid == command {
                    status = Some(reaped.status);
                    let exited = Exited { status: reaped.status, used: reaped.into() };
                    job.answer(Answer::Exited(exited));
                }
            }
            match status {
                Some(status) if !has_children() => return Ok(status),
                // The order may be the last one: a spawner that was killed gives
                // it, and no other. Orphans come with the end of their parents.
                Some(_) | None if is_ending => self.signal(Signal::SIGKILL),
                Some(_) | None => {}
            }
        }
    }

    fn signal(self, signal: Signal) {
        match self {
            Self::All => {
                // Nobody there is as good as everybody told.
                let _ = kill(Pid::from_raw(-1), signal);
            }
            Self::Children => {
                for child in children() {
                    let _ = kill(child, signal);
                }
            }
        }
    }
}

fn has_children() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look).is_ok()
}

fn children() -> Vec<Pid> {
    let listed = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pids = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.map(Pid::from_raw).collect()
}

/// Ends this process as another one did, for whoever waits for this one.
pub(super) fn end_as(status: i32) -> i32 {
    let status = ExitStatus::from_raw(status);
    if let Some(code) = status.code() {
        return code;
    }
    let signal = status.signal().and_then(|signal| Signal::try_from(signal).ok());
    if let Some(signal) = signal {
        fork::default_action(signal);
        // SIGKILL and SIGSTOP cannot be blocked; others are.
        let _ = SigSet::all().thread_unblock();
        let _ = raise(signal);
    }
    UNFIT
}
