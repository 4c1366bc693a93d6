//! Looking at what a request takes of memory and disk, as its user.
//!
//! The kernel bounds each process and each file. What all of them take together
//! nobody counts but who looks. Where a request has a user of its own, only that
//! user can see into its directories and descriptors, so a gauge opens files as
//! the tenant; but it is somebody else, whom no process of the tenant can
//! signal, slow down or look into.
//!
//! It runs in a child, for a tenant can make a tree that takes long to walk.

mod descriptors;
mod identity;
mod mappings;
mod processes;
mod totals;
mod tree;

use std::{
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    thread,
    time::{Duration, SystemTime},
};

use nix::unistd::{Pid, alarm};

pub(super) use self::identity::MeterIdentity;
use self::{
    totals::{MeterError, Totals},
    tree::TreeWalk,
};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits, shared::SharedCaches};

/// Longest look in seconds. A million files are code in less than a third of it.
const MAX_SECONDS: u32 = 10;

/// How often an excess has to be code in one look, and the time between: a
/// process that starts another shares its memory for a moment, and a directory
/// that moves may be met twice.
const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

const WITHIN: i32 = 0;
const MEMORY: i32 = 1;
const DISK: i32 = 2;
const FILES: i32 = 3;
const UNKNOWN: i32 = 4;

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measurement {
    /// All limits are kept.
    WithinLimits,
    /// One is not.
    Exceeded(ExceededLimit),
    /// It cannot be told.
    Unknown,
}

/// Whom to look at.
#[derive(Debug)]
pub(super) struct Subject<'s> {
    /// The directory of workspaces, and the name of one.
    pub(super) root: &'s OwnedFd,
    pub(super) workspace: &'s str,
    /// The request's user; `None` where everybody is the same one.
    pub(super) identity: Option<MeterIdentity>,
    /// Where everybody is one user: processes that the request's come from, and
    /// that do not count themselves.
    pub(super) workers: &'s [Pid],
    /// Its caches.
    pub(super) shared: Option<&'s SharedCaches>,
    /// What is older in its caches is somebody else's, who had the same user.
    pub(super) since: SystemTime,
    /// A process may close itself to looks: nothing keeps it from that.
    pub(super) may_hide: bool,
}

/// What a gauge's exit code says. One that was killed saw nothing.
pub(super) fn measurement(status: i32) -> Measurement {
    match ExitStatus::from_raw(status).code() {
        Some(WITHIN) => Measurement::WithinLimits,
        Some(MEMORY) => Measurement::Exceeded(ExceededLimit::Memory),
        Some(DISK) => Measurement::Exceeded(ExceededLimit::Disk),
        Some(FILES) => Measurement::Exceeded(ExceededLimit::Files),
        Some(_) | None => Measurement::Unknown,
    }
}

/// Runs in a child: looks, and again if there seems to be an excess.
pub(super) fn run(subject: &Subject<'_>, limits: RequestLimits) -> i32 {
    // Ended by the signal's default action: the spawner has no right to end it.
    alarm::set(MAX_SECONDS);
    let group = subject.shared.and_then(|shared| shared.group);
    if subject.identity.is_some_and(|identity| identity.assume(group).is_err()) {
        return UNKNOWN;
    }
    let mut code = WITHIN;
    for _ in 0..ATTEMPTS {
        code = match measure(subject, limits) {
            Ok(()) => WITHIN,
            Err(MeterError::Exceeded(ExceededLimit::Memory)) => MEMORY,
            Err(MeterError::Exceeded(ExceededLimit::Disk)) => DISK,
            Err(MeterError::Exceeded(ExceededLimit::Files)) => FILES,
            Err(MeterError::Exceeded(ExceededLimit::Unmeasured) | MeterError::Unreadable) => {
                UNKNOWN
            }
        };
        if matches!(code, WITHIN | UNKNOWN) {
            break;
        }
        thread::sleep(ATTEMPT_PAUSE);
    }
    code
}

fn measure(subject: &Subject<'_>, limits: RequestLimits) -> Result<(), MeterError> {
    let mut totals = Totals::new(limits);
    let processes = processes::members(subject)?;
    let open = descriptors::count(subject, &processes, &mut totals)?;
    mappings::count(subject, &processes, &open, &mut totals)?;
    processes::check_memory(&processes, &totals)?;
    if totals.counts_files() {
        TreeWalk::workspace(subject, &mut totals)?;
        TreeWalk::caches(subject, &mut totals)?;
    }
    totals.finish()
}

#[cfg(test)]
mod tests;
