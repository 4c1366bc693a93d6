//! Kills all processes of one UID and no others.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        signal::{Signal, kill},
    },
    unistd::{Pid, ResUid, getresuid, setresuid},
};

use super::{
    backoff::Backoff,
    process_check::{ProcessCheck, has_nproc_mark, has_visible_process},
    uid_pool::UidPair,
};
use crate::kernel::privilege::{change_groups, drop_capabilities};

/// Exit code of a killer that lacked the rights to kill.
const UNFIT: i32 = 1;

/// Pauses between two checks after SIGTERM.
const STOPPING: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

/// Pauses between two rounds of SIGKILL. A killed process usually ends within a
/// millisecond.
const DYING: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(100));

/// Longest time that processes may survive SIGKILL before the killer reports
/// them. They end within milliseconds, or seconds if hundreds of them share a
/// small part of a processor.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Runs in a child. Kills all processes of a tenant at once.
pub(super) fn sweep(uids: UidPair) -> i32 {
    let killed = drop_rights(uids).and_then(|()| end_all(uids, Signal::SIGKILL));
    killed.map_or(UNFIT, |()| 0)
}

/// Runs in a child. Sends SIGTERM to all processes of a tenant, and waits until
/// they end.
///
/// The tenant can change the priority of this process, so the spawner does not
/// wait for it longer than the grace.
pub(super) fn stop(uids: UidPair, grace: Duration) -> i32 {
    let began = Instant::now();
    let stopped = drop_rights(uids).and_then(|()| end_all(uids, Signal::SIGTERM));
    if stopped.is_err() {
        return UNFIT;
    }
    for earlier in 0.. {
        thread::sleep(STOPPING.pause(earlier));
        if began.elapsed() >= grace || !has_visible_process(uids.tenant) {
            break;
        }
    }
    0
}

/// Kills all processes of a tenant again and again until none is left. The
/// calling process must be a killer.
pub(super) fn end_until_gone(uids: UidPair, process_check: ProcessCheck) -> Result<(), Errno> {
    let began = Instant::now();
    for earlier in 0.. {
        end_all(uids, Signal::SIGKILL)?;
        if !has_processes(uids, process_check)? {
            return Ok(());
        }
        if began.elapsed() > KILL_PATIENCE {
            break;
        }
        thread::sleep(DYING.pause(earlier));
    }
    Err(Errno::ETIMEDOUT)
}

/// Drops all privileges and groups; see [`become_killer`].
pub(super) fn drop_rights(uids: UidPair) -> Result<(), Errno> {
    change_groups(uids.killer, &[])?;
    become_killer(uids)
}

/// Drops all privileges and keeps the tenant's UID as the effective UID only.
///
/// This process may then signal the tenant's processes, but they may not signal
/// it.
pub(super) fn become_killer(uids: UidPair) -> Result<(), Errno> {
    let UidPair { killer, tenant } = uids;
    setresuid(killer, tenant, killer)?;
    drop_capabilities()?;
    // With a capability left or with another UID, kill(-1) would reach other
    // processes. Therefore everything is checked first.
    let now = getresuid()?;
    let wanted = ResUid { real: killer, effective: tenant, saved: killer };
    let is_root = killer.is_root() || tenant.is_root();
    if now == wanted && !is_root { Ok(()) } else { Err(Errno::EPERM) }
}

/// Signals all processes of a tenant. kill(-1) reaches them in one call, so
/// none escapes by forking.
fn end_all(uids: UidPair, signal: Signal) -> Result<(), Errno> {
    match kill(Pid::from_raw(-1), signal) {
        // There was no process.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        // Linux does not return EPERM for kill(-1). gVisor does if there was no
        // process, and a seccomp filter does if it denied the call.
        Err(Errno::EPERM) if !has_visible_process(uids.tenant) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if the tenant has processes. All of them have been killed.
fn has_processes(uids: UidPair, process_check: ProcessCheck) -> Result<bool, Errno> {
    let UidPair { killer, tenant } = uids;
    if process_check == ProcessCheck::NprocMark {
        // With a limit of 0, switching to a UID that owns a process marks this
        // one. The killer's UID stays the saved one, so the switch back needs
        // no privilege.
        setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
        setresuid(tenant, tenant, killer)?;
        let is_marked = has_nproc_mark();
        setresuid(killer, tenant, killer)?;
        if !is_marked {
            return Ok(false);
        }
    }
    // The kernel counts processes of the whole node, and another Pod may use
    // the same UIDs. Only visible processes can belong to the tenant.
    Ok(has_visible_process(tenant))
}
