//! Kills all processes of one UID and no others.

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::{Gid, Pid, ResUid, getresuid, setgroups, setresgid, setresuid},
};

use super::{clean::has_visible_process, uid_pool::UidPair};
use crate::kernel::privilege::drop_capabilities;

/// Exit code of a killer that lacked the rights to kill.
const UNFIT: i32 = 1;

/// Runs in a child. Sends `signal` to all processes of a tenant at once.
pub(super) fn kill_all(uids: UidPair, signal: Signal) -> i32 {
    let group = Gid::from_raw(uids.killer.as_raw());
    let prepared = setgroups(&[]).and_then(|()| setresgid(group, group, group));
    let killed = prepared.and_then(|()| become_killer(uids)).and_then(|()| end_all(uids, signal));
    killed.map_or(UNFIT, |()| 0)
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
pub(super) fn end_all(uids: UidPair, signal: Signal) -> Result<(), Errno> {
    match kill(Pid::from_raw(-1), signal) {
        // There was no process.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        // Linux does not return EPERM for kill(-1). gVisor does if there was no
        // process, and a seccomp filter does if it denied the call.
        Err(Errno::EPERM) if !has_visible_process(uids.tenant) => Ok(()),
        Err(error) => Err(error),
    }
}
