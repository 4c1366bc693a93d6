//! Drops the supervisor's privileges once the spawner runs.

use nix::{
    errno::Errno,
    sys::prctl,
    unistd::{Gid, Uid, geteuid, getresuid, setfsuid, setgroups, setresgid, setresuid},
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use thiserror::Error;

/// The supervisor could not drop its privileges, so it must not serve.
#[derive(Debug, Error)]
#[error("cannot drop privileges and switch to UID {uid}: {errno}")]
pub struct NotDropped {
    uid: u32,
    errno: Errno,
}

/// Switches to `uid` permanently if this process is root, and drops all
/// capabilities.
///
/// Call it before starting any thread, because each thread has its own
/// privileges.
pub fn drop_privileges(uid: u32) -> Result<(), NotDropped> {
    become_user(Uid::from_raw(uid)).map_err(|errno| NotDropped { uid, errno })
}

pub(crate) fn become_user(user: Uid) -> Result<(), Errno> {
    if geteuid().is_root() && !user.is_root() {
        change_user(user, &[])?;
        let now = getresuid()?;
        if [now.real, now.effective, now.saved] != [user; 3] {
            return Err(Errno::EPERM);
        }
    }
    drop_capabilities()?;
    prctl::set_no_new_privs()?;
    // Other processes of the same UID cannot read the supervisor's memory or
    // environment.
    prctl::set_dumpable(false)
}

/// Switches to a UID and its groups permanently.
pub(crate) fn change_user(user: Uid, further: &[Gid]) -> Result<(), Errno> {
    change_groups(user, further)?;
    setresuid(user, user, user)
}

/// Leaves all groups but that of `user` and `further` ones. Later, another UID has no
/// right to do so.
pub(crate) fn change_groups(user: Uid, further: &[Gid]) -> Result<(), Errno> {
    let group = Gid::from_raw(user.as_raw());
    setgroups(further)?;
    setresgid(group, group, group)
}

/// Runs `act` with the file system UID of a user, if this process is root. Only this
/// thread has it.
pub fn as_user<T>(user: Option<u32>, act: impl FnOnce() -> T) -> T {
    let before = user.filter(|_| geteuid().is_root()).map(|user| setfsuid(Uid::from_raw(user)));
    let result = act();
    if let Some(before) = before {
        setfsuid(before);
    }
    result
}

/// Drops all capabilities and checks that they are gone.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    keep_capabilities(CapabilitySet::empty())
}

/// Drops all capabilities except these, and checks that the others are gone.
pub(crate) fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let (effective, permitted, inheritable) = (kept, kept, CapabilitySet::empty());
    let wanted = CapabilitySets { effective, permitted, inheritable };
    let errno = |error: rustix::io::Errno| Errno::from_raw(error.raw_os_error());
    set_capabilities(None, wanted).map_err(errno)?;
    if capabilities(None).map_err(errno)? == wanted { Ok(()) } else { Err(Errno::EPERM) }
}
