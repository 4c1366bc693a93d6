//! Ending every process of one user, and of no other.

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::{Gid, Pid, ResUid, getresuid, setgroups, setresgid, setresuid},
};

use super::{clean::has_visible_process, uid_pool::UidPair};
use crate::kernel::privilege::drop_capabilities;

/// What a killer ends with when it could not become one, or was not let.
const UNFIT: i32 = 1;

/// Runs in a child: sends `signal` to all processes of a tenant at once.
pub(super) fn kill_all(uids: UidPair, signal: Signal) -> i32 {
    let group = Gid::from_raw(uids.killer.as_raw());
    let prepared = setgroups(&[]).and_then(|()| setresgid(group, group, group));
    let killed = prepared.and_then(|()| become_killer(uids)).and_then(|()| end_all(uids, signal));
    killed.map_or(UNFIT, |()| 0)
}

/// Gives up every privilege for a user of whom the tenant is one half.
///
/// With the tenant as effective user only, this process may signal the tenant's
/// processes while none of them may signal it: a hostile one cannot shoot first.
pub(super) fn become_killer(uids: UidPair) -> Result<(), Errno> {
    let UidPair { killer, tenant } = uids;
    setresuid(killer, tenant, killer)?;
    drop_capabilities()?;
    // With a capability left, or as another user, the signal would go to
    // everybody: look before shooting.
    let now = getresuid()?;
    let wanted = ResUid { real: killer, effective: tenant, saved: killer };
    let is_root = killer.is_root() || tenant.is_root();
    if now == wanted && !is_root { Ok(()) } else { Err(Errno::EPERM) }
}

/// Signals all processes of a tenant as its killer. kill(-1) reaches them all in
/// one call, so nothing escapes by forking.
pub(super) fn end_all(uids: UidPair, signal: Signal) -> Result<(), Errno> {
    match kill(Pid::from_raw(-1), signal) {
        // Nobody was there.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        // Linux never says so of everybody at once: a kernel that is not Linux
        // does if nobody was there, and a filter if somebody was.
        Err(Errno::EPERM) if !has_visible_process(uids.tenant) => Ok(()),
        Err(error) => Err(error),
    }
}
