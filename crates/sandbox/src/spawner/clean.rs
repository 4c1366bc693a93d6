//! Ends a lease: kills its processes and removes its files, the latter running
//! as the UID that owns them.

use std::{
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    sys::resource::{Resource, setrlimit},
    unistd::{Gid, Uid, setresuid},
};
use rustix::process::setpriority_process;

use super::{
    end_duty::{EndDuty, HandOver, Owner},
    end_report::{EndReport, MAX_PIDS, wait_for_turn},
    kill::{become_killer, end_until_gone},
    process_check::{ProcessCheck, has_nproc_mark, has_visible_process, visible_processes},
    release::Remaining,
};
use crate::{
    kernel::privilege::{change_groups, drop_capabilities},
    worker::{
        remove::{self, STOPPED},
        share, view,
    },
};

const NOTHING: i32 = 0;
const PROCESSES: i32 = 1;
const FILES: i32 = 2;

/// Work on files before another lease gets its turn. Most leases need less.
const TURN: Duration = Duration::from_millis(500);

/// Priority (`nice`) after the first turn.
const NICE: i32 = 10;

/// Reads the exit code of a process that ended a lease. If it was killed itself,
/// another one has to find out.
pub(super) fn found(status: i32) -> Remaining {
    match ExitStatus::from_raw(status).code() {
        Some(NOTHING) => Remaining::Nothing,
        Some(PROCESSES) => Remaining::Processes,
        Some(FILES) => Remaining::Files,
        Some(_) | None => Remaining::Unknown,
    }
}

/// Runs in a child. Kills the tenant's processes, waits for its turn and
/// switches to the tenant's UID. Then hands its caches on and removes everything
/// in its workspace, a directory in `root`.
pub(super) fn end(duty: &EndDuty, root: &OwnedFd, socket: &OwnedFd) -> i32 {
    let group = duty.caches.as_ref().and_then(|caches| caches.shared.group).map(Gid::from_raw);
    if let Some(tenant) = duty.owner().uid()
        && let Err(code) = end_processes(duty, tenant, group, socket)
    {
        return code;
    }
    let mut turns = Turns { socket, until: Instant::now() + TURN };
    if !duty.has_turn && turns.wait().is_err() {
        return FILES;
    }
    match end_files(duty, root, &mut turns) {
        Ok(()) => NOTHING,
        Err(error) => {
            // The exit code says it too.
            let _ = EndReport::Files(error as i32).send(socket);
            FILES
        }
    }
}

fn end_processes(
    duty: &EndDuty,
    tenant: Uid,
    group: Option<Gid>,
    socket: &OwnedFd,
) -> Result<(), i32> {
    become_member(tenant, group).map_err(|_refused| PROCESSES)?;
    let process_check = duty.process_check();
    let ended = match duty.owner() {
        Owner::Leased(uids) => become_killer(uids)
            .and_then(|()| end_until_gone(uids, process_check))
            .and_then(|()| become_tenant(tenant)),
        Owner::Former(_) | Owner::Spawner => {
            become_tenant(tenant).and_then(|()| has_none(tenant, process_check))
        }
    };
    ended.map_err(|_left| {
        let left = visible_processes(tenant).take(MAX_PIDS).collect();
        // The exit code says it too.
        let _ = EndReport::Processes(left).send(socket);
        PROCESSES
    })
}

/// Fails if the tenant has processes. This process has just got its UID.
fn has_none(tenant: Uid, process_check: ProcessCheck) -> Result<(), Errno> {
    let is_unsure = process_check == ProcessCheck::Listing || has_nproc_mark();
    if is_unsure && has_visible_process(tenant) { Err(Errno::EBUSY) } else { Ok(()) }
}

fn become_member(tenant: Uid, further: Option<Gid>) -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    change_groups(tenant, further.as_slice())
}

fn become_tenant(user: Uid) -> Result<(), Errno> {
    setresuid(user, user, user)?;
    drop_capabilities()
}

fn end_files(duty: &EndDuty, root: &OwnedFd, turns: &mut Turns<'_>) -> Result<(), Errno> {
    let mut pause = || turns.pass();
    if let Some(HandOver { shared, since_us, measure, is_whole }) = duty.caches.clone() {
        let shared = shared.into();
        let since = since_us.map(|us| SystemTime::UNIX_EPOCH + Duration::from_micros(us));
        if is_whole {
            view::merge(&shared, root, &duty.workspace, &mut pause)?;
        }
        share::hand_on(&shared, share::Extent { since, measure }, &mut pause)?;
    }
    remove::contents(root, &duty.workspace, &mut pause)
}

/// The turns of a process among those that work on files.
struct Turns<'t> {
    socket: &'t OwnedFd,
    until: Instant,
}

impl Turns<'_> {
    /// Lets others work if this turn is over. An error means that the spawner is
    /// gone.
    fn pass(&mut self) -> Result<(), Errno> {
        if Instant::now() < self.until {
            return Ok(());
        }
        // A lower priority is a favour to others, not a right.
        let _ = setpriority_process(None, NICE);
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Errno> {
        let gone = |_| STOPPED;
        EndReport::Waiting.send(self.socket).map_err(gone)?;
        if !wait_for_turn(self.socket) {
            return Err(STOPPED);
        }
        self.until = Instant::now() + TURN;
        Ok(())
    }
}
