//! Measures the memory and disk space of a request.
//!
//! The kernel limits each process and each file, but a sidecar cannot limit a
//! whole request. The meter accesses files as the tenant, because only the
//! tenant's UID can enter its directories. For signals it has another UID, so
//! the tenant cannot signal or slow it.
//!
//! It runs in a child, because walking a tenant's tree may take long.

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

/// Longest measurement in seconds. A million files take less than a third of
/// it.
const MAX_SECONDS: u32 = 10;

/// An exceeded limit must show in this many attempts. A process that forks
/// shares its memory for a moment, and a moved directory may be counted twice.
const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

const WITHIN: i32 = 0;
const MEMORY: i32 = 1;
const DISK: i32 = 2;
const FILES: i32 = 3;
const UNKNOWN: i32 = 4;

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measurement {
    /// No limit is exceeded.
    WithinLimits,
    /// This limit is exceeded.
    Exceeded(ExceededLimit),
    /// The usage could not be measured.
    Unknown,
}

/// The request to measure.
#[derive(Debug)]
pub(super) struct Subject<'s> {
    /// Directory of all workspaces, and the name of one.
    pub(super) root: &'s OwnedFd,
    pub(super) workspace: &'s str,
    /// The meter's and the tenant's UID; `None` in tiers without separate UIDs.
    pub(super) identity: Option<MeterIdentity>,
    /// Parents of the request's processes in tiers without separate UIDs. They
    /// are not counted themselves.
    pub(super) workers: &'s [Pid],
    /// Caches of the request.
    pub(super) shared: Option<&'s SharedCaches>,
    /// Older files in the caches belong to an earlier request with the same
    /// UID.
    pub(super) since: SystemTime,
    /// Processes may make themselves unreadable, because no filter prevents it.
    pub(super) may_hide: bool,
}

/// Reads a meter's exit code. A meter that was killed measured nothing.
pub(super) fn measurement(status: i32) -> Measurement {
    match ExitStatus::from_raw(status).code() {
        Some(WITHIN) => Measurement::WithinLimits,
        Some(MEMORY) => Measurement::Exceeded(ExceededLimit::Memory),
        Some(DISK) => Measurement::Exceeded(ExceededLimit::Disk),
        Some(FILES) => Measurement::Exceeded(ExceededLimit::Files),
        Some(_) | None => Measurement::Unknown,
    }
}

/// Runs in a child. Measures, and repeats if a limit seems to be exceeded.
pub(super) fn run(subject: &Subject<'_>, limits: RequestLimits) -> i32 {
    // SIGALRM ends the meter; the spawner has no right to kill it.
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
            Err(
                MeterError::Exceeded(
                    ExceededLimit::TotalMemory
                    | ExceededLimit::TotalProcesses
                    | ExceededLimit::Unmeasured,
                )
                | MeterError::Unreadable,
            ) => UNKNOWN,
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
