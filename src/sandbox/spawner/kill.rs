//! Ending every process of one user, and of no other.

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::{Gid, Pid, ResUid, Uid, getresuid, setgroups, setresgid, setresuid},
};

use super::clean::is_seen;

/// What a killer ends with when it could not become one, or was not let.
const UNFIT: i32 = 1;

/// Runs in a child: sends `signal` to all processes of `victim` at once.
///
/// With the victim as effective user only, the killer may signal the victim's
/// processes while none of them may signal it: a hostile one cannot shoot
/// first. kill(-1) reaches them all in one call, so nothing escapes by forking.
pub(super) fn kill_all(victim: Uid, killer: Uid, signal: Signal) -> i32 {
    if become_killer(victim, killer).is_err() {
        return UNFIT;
    }
    match kill(Pid::from_raw(-1), signal) {
        // Nobody was there.
        Ok(()) | Err(Errno::ESRCH) => 0,
        // Linux never says so of everybody at once: a kernel that is not Linux
        // does if nobody was there, and a filter if somebody was.
        Err(Errno::EPERM) if !is_seen(victim) => 0,
        Err(_) => UNFIT,
    }
}

fn become_killer(victim: Uid, killer: Uid) -> Result<(), Errno> {
    setgroups(&[])?;
    let group = Gid::from_raw(killer.as_raw());
    setresgid(group, group, group)?;
    setresuid(killer, victim, killer)?;
    drop_capabilities()?;
    // With a capability left, or as another user, the signal would go to
    // everybody: look before shooting.
    let now = getresuid()?;
    let wanted = ResUid { real: killer, effective: victim, saved: killer };
    let is_root = killer.is_root() || victim.is_root();
    if now == wanted && !is_root { Ok(()) } else { Err(Errno::EPERM) }
}

/// Gives up every capability, and checks that they are gone.
pub(in super::super) fn drop_capabilities() -> Result<(), Errno> {
    use caps::CapSet::{Effective, Inheritable, Permitted};
    for set in [Effective, Permitted, Inheritable] {
        caps::clear(None, set).map_err(|_refused| Errno::EPERM)?;
    }
    let left = caps::read(None, Permitted).map_err(|_unreadable| Errno::EPERM)?;
    if left.is_empty() { Ok(()) } else { Err(Errno::EPERM) }
}
