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
mod report;
mod scratch;
mod totals;
mod tree;

use std::{
    collections::BTreeSet,
    os::fd::{BorrowedFd, OwnedFd},
    thread,
    time::{Duration, SystemTime},
};

use nix::{
    sys::resource::{Resource, setrlimit},
    unistd::{Pid, alarm},
};

pub(super) use self::{
    identity::MeterIdentity,
    processes::{THREAD, tenant_threads},
    report::{Gauge, Measurement, Reading},
};
use self::{totals::Totals, tree::TreeWalk};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits, shared::SharedCaches};

/// Most CPU time of a measurement in seconds. A million files take less than
/// half of it.
const MAX_CPU: u64 = 5;

/// Longest measurement in seconds, on a machine that is busy otherwise.
const MAX_SECONDS: u32 = 60;

/// Exceeding the memory limit must show in this many attempts. A process that
/// forks shares its memory for a moment.
const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// Exceeding another limit must show in this many attempts: files that are moved
/// may be counted twice.
const FILE_ATTEMPTS: u32 = 2;

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
    pub(super) earlier: Earlier,
    /// Processes may make themselves unreadable, because no filter prevents it.
    pub(super) may_hide: bool,
    /// Its `/tmp` and `/dev/shm` are in memory, and no other request's.
    pub(super) has_own_mounts: bool,
    /// Bytes in buffers of sockets, which the meter cannot see.
    pub(super) buffers: u64,
    /// Nobody may ask the kernel for these bytes.
    pub(super) has_hidden_sockets: bool,
    /// Bytes by which the work volume has grown since the request began; `None` if nobody
    /// knows.
    pub(super) growth: Option<u64>,
}

#[cfg(test)]
impl<'s> Subject<'s> {
    /// A request without a workspace, caches or a UID of its own.
    fn of(root: &'s OwnedFd, workers: &'s [Pid]) -> Self {
        let since = SystemTime::UNIX_EPOCH;
        Self {
            root,
            workspace: "",
            identity: None,
            workers,
            shared: None,
            since,
            earlier: Earlier { since, current: BTreeSet::new() },
            may_hide: false,
            has_own_mounts: false,
            buffers: 0,
            has_hidden_sockets: false,
            growth: None,
        }
    }
}

/// Files in caches that earlier requests created. Those that have changed are
/// counted for each request that has these caches now, because any of them may
/// have changed them.
#[derive(Debug)]
pub(super) struct Earlier {
    /// Earlier changes may be those of a request that has ended.
    pub(super) since: SystemTime,
    /// UIDs of requests that have these caches now. Their own files count for
    /// them.
    pub(super) current: BTreeSet<u32>,
}

/// Runs in a child. Measures, repeats if a limit seems to be exceeded, and
/// writes the result to `report`.
pub(super) fn run(subject: &Subject<'_>, limits: RequestLimits, report: BorrowedFd<'_>) -> i32 {
    // SIGALRM ends the meter; the spawner has no right to kill it.
    alarm::set(MAX_SECONDS);
    let limited = setrlimit(Resource::RLIMIT_CPU, MAX_CPU, MAX_CPU);
    let group = subject.shared.and_then(|shared| shared.group);
    let assumed = subject.identity.map_or(Ok(()), |identity| identity.assume(group));
    let failed = limited.is_err() || assumed.is_err();
    let reading = if failed { Reading::default() } else { confirmed(subject, limits) };
    i32::from(reading.send(report).is_err())
}

fn confirmed(subject: &Subject<'_>, limits: RequestLimits) -> Reading {
    let mut attempt = 1;
    loop {
        let reading = measure(subject, limits);
        let wanted = match reading.measurement() {
            Measurement::WithinLimits | Measurement::Unknown | Measurement::Hidden => 1,
            Measurement::Exceeded(ExceededLimit::Memory) => ATTEMPTS,
            Measurement::Exceeded(_) => FILE_ATTEMPTS,
        };
        if attempt >= wanted {
            return reading;
        }
        attempt += 1;
        thread::sleep(ATTEMPT_PAUSE);
    }
}

/// Counts everything that can be seen, even if something is hidden.
fn measure(subject: &Subject<'_>, limits: RequestLimits) -> Reading {
    let mut totals = Totals::new(limits);
    let Ok(processes) = processes::members(subject) else { return Reading::default() };
    let scratch = scratch::count(subject, &processes, &mut totals);
    let open = descriptors::count(subject, &processes, scratch, &mut totals);
    mappings::count(subject, &processes, &open, &mut totals);
    processes::add_filters(&processes, &mut totals);
    processes::add_memory(&processes, &mut totals, subject.buffers);
    if totals.counts_files() {
        // A limit that is exceeded ends the walk; the totals know it.
        let _ = TreeWalk::workspace(subject, &mut totals)
            .and_then(|()| TreeWalk::caches(subject, &mut totals));
    }
    totals.reading(subject.buffers)
}

#[cfg(test)]
mod tests;
