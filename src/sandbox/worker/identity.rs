//! Becoming a tenant: the steps from the spawner's rights to a tenant's.

use std::os::fd::OwnedFd;

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        signal::{SigSet, Signal},
        stat::{Mode, mkdirat},
    },
    unistd::{
        Gid, Pid, Uid, fchdir, getppid, getresgid, getresuid, setfsuid, setgroups, setresgid,
        setresuid, setsid,
    },
};

use super::{HOME, REPOSITORY, TEMPORARY, Tenant, Trouble, step};
use crate::sandbox::spawner::drop_capabilities;

/// Takes a tenant's identity for good and returns its workspace, which is made
/// first if this is the tenant's first worker.
///
/// The order matters: each step needs a right that a later one gives up.
pub(super) fn assume(tenant: &Tenant, root: &OwnedFd, first: bool) -> Result<OwnedFd, Trouble> {
    let spawner = getppid();
    setsid().map_err(step("lead a session of its own"))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(step("forbid core dumps"))?;
    if first {
        make_workspace(tenant, root).map_err(step("make a workspace"))?;
    }
    if let Some(user) = tenant.user {
        change_user(user).map_err(step("change to the leased user"))?;
    }
    drop_capabilities().map_err(step("give up capabilities"))?;
    die_with(spawner).map_err(step("end with the spawner"))?;
    prctl::set_no_new_privs().map_err(step("renounce new privileges"))?;
    let workspace = enter(tenant, root).map_err(step("enter the workspace"))?;
    if first {
        make_directories(&workspace).map_err(step("make directories"))?;
    }
    // Blocked so far for the spawner's sake; a program expects none to be.
    SigSet::all().thread_unblock().map_err(step("unblock signals"))?;
    Ok(workspace)
}

/// The directory is the tenant's from the start: for the file system this
/// process already is the tenant, while its group still may write to the root.
fn make_workspace(tenant: &Tenant, root: &OwnedFd) -> Result<(), Errno> {
    if let Some(user) = tenant.user {
        setfsuid(user);
    }
    mkdirat(root, tenant.workspace.as_str(), Mode::S_IRWXU)
}

fn change_user(user: Uid) -> Result<(), Errno> {
    let group = Gid::from_raw(user.as_raw());
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    let (users, groups) = (getresuid()?, getresgid()?);
    let is_user = [users.real, users.effective, users.saved] == [user; 3];
    let is_group = [groups.real, groups.effective, groups.saved] == [group; 3];
    if is_user && is_group && !user.is_root() { Ok(()) } else { Err(Errno::EPERM) }
}

/// The signal is forgotten when the user changes, so it is asked for after
/// that; the spawner may have ended in between.
fn die_with(spawner: Pid) -> Result<(), Errno> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == spawner { Ok(()) } else { Err(Errno::ESRCH) }
}

fn enter(tenant: &Tenant, root: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let workspace = openat(root, tenant.workspace.as_str(), flags, Mode::empty())?;
    fchdir(&workspace)?;
    Ok(workspace)
}

fn make_directories(workspace: &OwnedFd) -> Result<(), Errno> {
    for name in [REPOSITORY, HOME, TEMPORARY] {
        mkdirat(workspace, name, Mode::S_IRWXU)?;
    }
    Ok(())
}
