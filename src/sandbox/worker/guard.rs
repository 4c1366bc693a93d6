//! A process between the spawner and a command that has the spawner's own user.
//!
//! Where everybody is one user, no user tells a request's processes from others.
//! A guard does: it is where their orphans go, and under Landlock it may signal
//! them and nobody else.

use std::io;

use landlock::{ABI, Access, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigSet, Signal, kill, raise},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getppid, setsid},
};

use super::Job;
use crate::sandbox::{fork, tier::Tier};

/// Most children that a guard waits for. Each round ends one at least.
const ROUNDS: usize = 100_000;

/// What a process ends with that can neither do its job nor end as another did.
const UNFIT: i32 = 126;

/// The spawner's order to end everything at once.
pub(in crate::sandbox) const END: Signal = Signal::SIGUSR1;

/// Has a child do the job, ends everything that came of it, and ends as the
/// child did.
pub(super) fn stand(job: &mut Job<'_>) -> i32 {
    match guard(job) {
        Ok(status) => end_as(status),
        Err(error) => job.fail("guard a command", error),
    }
}

fn guard(job: &mut Job<'_>) -> io::Result<WaitStatus> {
    let spawner = getppid();
    setsid()?;
    prctl::set_child_subreaper(true)?;
    prctl::set_pdeathsig(END)?;
    let site = job.site;
    let reach = match site.tier {
        Tier::Landlock => Reach::Domain(enclose(spawner)?),
        Tier::None | Tier::Uid | Tier::Namespaces => Reach::Children,
    };
    let signals = watched();
    signals.thread_block()?;
    if getppid() != spawner {
        return Err(Errno::ESRCH.into());
    }
    let child = site.fork.fork(|| job.run(site))?;
    let status = watch(child, &signals, &reach)?;
    reach.clear();
    Ok(status)
}

fn watched() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM, END].into_iter().collect()
}

/// Passes orders on until the child has ended.
fn watch(child: Pid, signals: &SigSet, reach: &Reach) -> io::Result<WaitStatus> {
    loop {
        let signal = signals.wait()?;
        if signal == Signal::SIGTERM {
            reach.signal(Signal::SIGTERM);
        } else if signal == END {
            reach.signal(Signal::SIGKILL);
        }
        while let Some(status) = reap() {
            if status.pid() == Some(child) {
                return Ok(status);
            }
        }
    }
}

/// Whom a guard's signals meet.
enum Reach {
    /// Everybody in its Landlock domain, in one call.
    Domain(Enclosed),
    /// Its children; orphans become children.
    Children,
}

/// Proof that signals do not leave the domain: otherwise they would meet the
/// supervisor, which has the same user.
struct Enclosed(());

/// Encloses this process in a domain that its signals cannot leave, and tries.
fn enclose(outside: Pid) -> io::Result<Enclosed> {
    let ruleset = Ruleset::default().scope(Scope::from_all(ABI::V6)).map_err(io::Error::other)?;
    let created = ruleset.create().map_err(io::Error::other)?;
    let status = created.no_new_privs(true).restrict_self().map_err(io::Error::other)?;
    let is_enforced = status.ruleset == RulesetStatus::FullyEnforced;
    match kill(outside, None) {
        Err(Errno::EPERM) if is_enforced => Ok(Enclosed(())),
        Ok(()) | Err(_) => Err(io::Error::other("signals leave the domain")),
    }
}

impl Reach {
    fn signal(&self, signal: Signal) {
        match self {
            Self::Domain(Enclosed(())) => {
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

    /// Ends whatever the child left behind.
    fn clear(&self) {
        for _ in 0..ROUNDS {
            self.signal(Signal::SIGKILL);
            if waitpid(None, None) == Err(Errno::ECHILD) {
                return;
            }
        }
    }
}

fn reap() -> Option<WaitStatus> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::StillAlive) | Err(_) => None,
        Ok(status) => Some(status),
    }
}

fn children() -> Vec<Pid> {
    let listed = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pids = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.map(Pid::from_raw).collect()
}

/// Ends this process as another one did, for whoever waits for this one.
pub(super) fn end_as(status: WaitStatus) -> i32 {
    match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => {
            fork::default_action(signal);
            let _ = SigSet::all().thread_unblock();
            let _ = raise(signal);
            128 + signal as i32
        }
        WaitStatus::Stopped(..)
        | WaitStatus::PtraceEvent(..)
        | WaitStatus::PtraceSyscall(_)
        | WaitStatus::Continued(_)
        | WaitStatus::StillAlive => UNFIT,
    }
}
