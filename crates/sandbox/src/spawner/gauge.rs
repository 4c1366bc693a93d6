//! Looking at what a request takes of memory and disk, as its user.
//!
//! The kernel bounds each process and each file. What all of them take together
//! nobody counts but who looks. Where a request has a user of its own, only that
//! user can see into its directories and descriptors, so a gauge opens files as
//! the tenant; but it is somebody else, whom no process of the tenant can
//! signal, slow down or look into.
//!
//! It runs in a child, for a tenant can make a tree that takes long to walk.

mod census;
mod descriptors;
mod identity;
mod mappings;
mod tally;
mod tree;

use std::{
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    thread,
    time::{Duration, SystemTime},
};

use nix::unistd::{Pid, alarm};

pub(super) use self::identity::Identity;
use self::{
    tally::{Stop, Tally},
    tree::Walk,
};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits, shared::SharedCaches};

/// Longest look in seconds. A million files are seen in less than a third of it.
const LONGEST_LOOK: u32 = 10;

/// How often an excess has to be seen in one look, and the time between: a
/// process that starts another shares its memory for a moment, and a directory
/// that moves may be met twice.
const TIMES: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(10);

const WITHIN: i32 = 0;
const MEMORY: i32 = 1;
const DISK: i32 = 2;
const FILES: i32 = 3;
const NOTHING: i32 = 4;

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All limits are kept.
    Within,
    /// One is not.
    Exceeded(ExceededLimit),
    /// It cannot be told.
    Nothing,
}

/// Whom to look at.
#[derive(Debug)]
pub(super) struct Subject<'s> {
    /// The directory of workspaces, and the name of one.
    pub(super) root: &'s OwnedFd,
    pub(super) workspace: &'s str,
    /// The request's user; `None` where everybody is the same one.
    pub(super) identity: Option<Identity>,
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
pub(super) fn found(status: i32) -> Found {
    match ExitStatus::from_raw(status).code() {
        Some(WITHIN) => Found::Within,
        Some(MEMORY) => Found::Exceeded(ExceededLimit::Memory),
        Some(DISK) => Found::Exceeded(ExceededLimit::Disk),
        Some(FILES) => Found::Exceeded(ExceededLimit::Files),
        Some(_) | None => Found::Nothing,
    }
}

/// Runs in a child: looks, and again if there seems to be an excess.
pub(super) fn look(subject: &Subject<'_>, limits: RequestLimits) -> i32 {
    // Ended by the signal's default action: the spawner has no right to end it.
    alarm::set(LONGEST_LOOK);
    let group = subject.shared.and_then(|shared| shared.group);
    if subject.identity.is_some_and(|identity| identity.assume(group).is_err()) {
        return NOTHING;
    }
    let mut seen = WITHIN;
    for _ in 0..TIMES {
        seen = match measure(subject, limits) {
            Ok(()) => WITHIN,
            Err(Stop::Exceeded(ExceededLimit::Memory)) => MEMORY,
            Err(Stop::Exceeded(ExceededLimit::Disk)) => DISK,
            Err(Stop::Exceeded(ExceededLimit::Files)) => FILES,
            Err(Stop::Exceeded(ExceededLimit::Unmeasured) | Stop::Blind) => NOTHING,
        };
        if matches!(seen, WITHIN | NOTHING) {
            break;
        }
        thread::sleep(BETWEEN);
    }
    seen
}

fn measure(subject: &Subject<'_>, limits: RequestLimits) -> Result<(), Stop> {
    let mut tally = Tally::new(limits);
    let processes = census::members(subject)?;
    let open = descriptors::look(subject, &processes, &mut tally)?;
    mappings::look(subject, &processes, &open, &mut tally)?;
    census::check_memory(&processes, &tally)?;
    if tally.counts_files() {
        Walk::workspace(subject, &mut tally)?;
        Walk::caches(subject, &mut tally)?;
    }
    tally.finish()
}

#[cfg(test)]
mod tests;
