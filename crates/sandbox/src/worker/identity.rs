//! The steps from the spawner's rights to a tenant's rights.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::{
        prctl,
        signal::Signal,
        stat::{Mode, mkdirat},
    },
    unistd::{Gid, Pid, Uid, fchdir, getresgid, getresuid, setfsuid, setresuid, setsid},
};
use rustix::process::getgroups;

use super::{
    Channels, HOME, JobError, REPOSITORY, SCRATCH_PATHS, TEMPORARY, Tenant, WorkerContext,
    read_paths::ReadPath, step,
};
use crate::{
    kernel::{
        filter::{self, NotInstalled},
        fork,
        limits::{self, ProcessLimits},
        oom,
        parent::end_with,
        policy::{ExtraAccess, NoPolicy, refuses_truncation, restrict_changes, restrict_sockets},
        privilege::{change_user, drop_capabilities},
        signals::unblock_all,
        unwritable::directory_remedy,
    },
    wire::{message::JobKind, plan::Plan, shared::SharedCaches, tier::Tier},
};

/// A path that is private to the request in namespaces, as [`SCRATCH_PATHS`] are.
const PROCESSES: &str = "/proc";

/// Switches to the tenant's UID permanently and returns the workspace. The
/// tenant's first worker creates it.
///
/// Each step needs a right that a later step drops.
pub(super) fn assume(
    context: &WorkerContext<'_>,
    tenant: &Tenant,
    kind: JobKind,
    groups: &BTreeSet<u32>,
) -> Result<OwnedFd, JobError> {
    setsid().map_err(step("create a session"))?;
    limits::lower_priority().map_err(step("lower the priority"))?;
    // Guards are not raised: without its guard, a command could outlive its
    // request.
    oom::volunteer().map_err(step("raise the OOM score"))?;
    let is_first = matches!(kind, JobKind::Unpack | JobKind::Canary);
    if is_first {
        let made = make_workspace(context, tenant);
        made.map_err(|error| not_made(context.root_path, error))
            .map_err(step("create a workspace"))?;
    }
    if let Some(user) = tenant.user {
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        change_user(user, &groups).map_err(step("switch to the leased UID"))?;
    }
    drop_capabilities().map_err(step("drop capabilities"))?;
    end_with(context.parent, Signal::SIGKILL).map_err(step("set the parent death signal"))?;
    prctl::set_no_new_privs().map_err(step("set no_new_privs"))?;
    prove_powerless(tenant, groups).map_err(step("verify that no privilege is left"))?;
    let workspace = enter(context, tenant).map_err(step("enter the workspace"))?;
    if is_first {
        make_directories(&workspace).map_err(step("create directories"))?;
    }
    Ok(workspace)
}

/// A worker that can access only what its tenant may.
#[derive(Debug)]
pub(super) struct Confined {
    workspace: OwnedFd,
    /// The kernel restricts files.
    has_policy: bool,
    /// The kernel filters system calls.
    is_filtered: bool,
    /// Commands could empty files outside the workspace without another filter.
    lacks_truncation: bool,
    /// Directories outside the workspace that it may change.
    writable: Vec<PathBuf>,
}

impl Confined {
    /// Restricts files, sockets and system calls as the plan says, and closes
    /// all descriptors of the spawner.
    pub(super) fn enter(
        context: &WorkerContext<'_>,
        workspace: OwnedFd,
        access: Access<'_>,
        channels: &Channels,
    ) -> Result<Self, JobError> {
        let mut extra = ExtraAccess::from(access);
        match context.tier {
            Tier::Namespaces => {
                extra.read.push(PROCESSES.into());
                extra.write.extend(SCRATCH_PATHS.map(PathBuf::from));
            }
            // With one right less, no directory can be moved out of a cache: who ends this
            // request could not remove one of another UID.
            Tier::Uid => (),
            // With the same rights for all, directories can be moved out of a cache.
            Tier::Landlock | Tier::None => extra.write.append(&mut extra.shared),
        }
        if let Some(policy) = context.policy {
            let restricted = policy.enforce(workspace.as_fd(), &extra).map(drop);
            restricted
                .and_then(|()| keep_out_sockets(access.tenant, &extra))
                .map_err(io::Error::other)
                .map_err(step("restrict files"))?;
        }
        let own = [workspace.as_fd(), channels.socket.as_fd()].into_iter();
        let archive = channels.archive.as_ref().map(AsFd::as_fd);
        let kept = own.chain(archive).chain(channels.turn.as_ref().map(AsFd::as_fd));
        fork::close_all_but(kept).map_err(step("close descriptors"))?;
        // Last, because it denies some of the calls before.
        filter_calls(context, access.has_sockets)
            .map_err(io::Error::other)
            .map_err(step("filter system calls"))?;
        // The spawner blocks signals; programs expect none to be blocked.
        unblock_all().map_err(step("unblock signals"))?;
        let (has_policy, is_filtered) = (context.policy.is_some(), context.tier != Tier::None);
        let lacks_truncation =
            context.tier == Tier::Uid && refuses_truncation(context.pod_groups.landlock);
        let writable = [extra.write, extra.shared].concat();
        Ok(Self { workspace, has_policy, is_filtered, lacks_truncation, writable })
    }

    /// Denies commands what workers need until now.
    pub(super) fn finish(&self) -> Result<(), JobError> {
        if !self.is_filtered {
            return Ok(());
        }
        let truncation = if self.lacks_truncation { filter::forbid_truncation() } else { Ok(()) };
        let forbidden = truncation.and_then(|()| filter::restrict_command());
        forbidden.map_err(io::Error::other).map_err(step("filter system calls"))
    }

    /// Denies changes of the repository for ever. The worker that unpacks it cannot be
    /// denied them from the start.
    pub(super) fn keep_repository(&self, tenant: &Tenant) -> Result<(), JobError> {
        if !self.has_policy {
            return Ok(());
        }
        let names = fs::read_dir(&tenant.workspace).map_err(step("list the workspace"))?;
        let others = names.flatten().map(|entry| entry.path());
        let others = others.filter(|path| path.file_name() != Some(OsStr::new(REPOSITORY)));
        // A rule for `/tmp` would also be one for a workspace below it.
        let is_apart = |path: &&PathBuf| !tenant.workspace.starts_with(path);
        let writable = others.chain(self.writable.iter().filter(is_apart).cloned());
        let restricted = restrict_changes(writable).map_err(io::Error::other);
        restricted.map_err(step("make the repository read-only"))
    }

    pub(super) fn workspace(&self) -> BorrowedFd<'_> {
        self.workspace.as_fd()
    }
}

/// Denies sockets in caches that lie below another directory to write to, as they do in
/// namespaces if the work directory is in `/tmp`: its rule would also be one for them.
fn keep_out_sockets(tenant: &Tenant, extra: &ExtraAccess) -> Result<(), NoPolicy> {
    let is_above = |path: &&PathBuf| extra.shared.iter().any(|shared| shared.starts_with(path));
    if !extra.write.iter().any(|path| is_above(&path)) {
        return Ok(());
    }
    let apart = extra.write.iter().filter(|path| !is_above(path));
    restrict_sockets(apart.chain([&tenant.workspace]).cloned())
}

/// Filters system calls as the tier demands. The spawner has installed most of the filter.
fn filter_calls(context: &WorkerContext<'_>, has_sockets: bool) -> Result<(), NotInstalled> {
    context.filter.install_late()?;
    if context.tier == Tier::Uid && !has_sockets { filter::forbid_sockets() } else { Ok(()) }
}

/// Sets the limits of the plan for this process and its descendants.
pub(super) fn limit(plan: &Plan, tenant: &Tenant) -> Result<(), JobError> {
    let limits = ProcessLimits::of(plan, tenant.user.is_some());
    limits.and_then(|limits| limits.install()).map_err(step("limit resources"))?;
    if plan.no_internet {
        let forbidden = filter::forbid_internet().map_err(io::Error::other);
        forbidden.map_err(step("forbid internet sockets"))?;
    }
    Ok(())
}

/// Access in addition to the workspace and to the paths for all tenants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'r> {
    pub(super) tenant: &'r Tenant,
    pub(super) read_paths: &'r [ReadPath],
    pub(super) plan: &'r Plan,
    /// False if modes of Unix sockets do not protect those of others.
    pub(super) has_sockets: bool,
}

impl From<Access<'_>> for ExtraAccess {
    fn from(Access { tenant, read_paths, plan, .. }: Access<'_>) -> Self {
        let repository = tenant.repository.iter().map(|shared| shared.path.clone());
        let named = read_paths.iter().map(|path| path.real.clone());
        Self {
            read: named.chain(repository).collect(),
            write: Vec::new(),
            shared: tenant.shared.iter().flat_map(SharedCaches::paths).collect(),
            ports: (!plan.any_port)
                .then(|| plan.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect()),
        }
    }
}

/// The file system UID is the tenant's already, so the directory belongs to the
/// tenant. The group still has the right to write to its parent.
fn make_workspace(context: &WorkerContext<'_>, tenant: &Tenant) -> Result<(), Errno> {
    if let Some(user) = tenant.user {
        setfsuid(user);
    }
    let name = tenant.workspace.file_name().ok_or(Errno::EINVAL)?;
    mkdirat(context.root, name, Mode::S_IRWXU)
}

/// Adds the directory and the remedy for a volume that has become read-only.
fn not_made(root: &Path, errno: Errno) -> io::Error {
    let error = io::Error::from(errno);
    if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
        return error;
    }
    let remedy = directory_remedy(&error, "--work-dir");
    io::Error::new(error.kind(), format!("{}: {error}: {remedy}", root.display()))
}

/// Takes the tenant's rights for a process that sets nothing up.
pub(super) fn become_tenant(tenant: &Tenant, parent: Pid) -> Result<(), Errno> {
    if let Some(user) = tenant.user {
        change_user(user, tenant.group().as_slice())?;
    }
    drop_capabilities()?;
    prctl::set_no_new_privs()?;
    end_with(parent, Signal::SIGKILL)
}

/// Checks all IDs, and tries to become root again.
fn prove_powerless(tenant: &Tenant, wanted: &BTreeSet<u32>) -> Result<(), Errno> {
    let Some(user) = tenant.user else { return Ok(()) };
    let group = Gid::from_raw(user.as_raw());
    let (users, groups) = (getresuid()?, getresgid()?);
    let is_user = [users.real, users.effective, users.saved] == [user; 3];
    let is_group = [groups.real, groups.effective, groups.saved] == [group; 3];
    // Other groups that the Pod gives to the supervisor, such as `fsGroup`, must be
    // gone.
    let further = getgroups().map_err(|error| Errno::from_raw(error.raw_os_error()))?;
    let further: BTreeSet<u32> = further.iter().map(|group| group.as_raw()).collect();
    let has_no_other = further == *wanted;
    let root = Uid::from_raw(0);
    if is_user && is_group && has_no_other && setresuid(root, root, root).is_err() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn enter(context: &WorkerContext<'_>, tenant: &Tenant) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let name = tenant.workspace.file_name().ok_or(Errno::EINVAL)?;
    let workspace = openat(context.root, name, flags, Mode::empty())?;
    fchdir(&workspace)?;
    Ok(workspace)
}

fn make_directories(workspace: &OwnedFd) -> Result<(), Errno> {
    for name in [REPOSITORY, HOME, TEMPORARY] {
        mkdirat(workspace, name, Mode::S_IRWXU)?;
    }
    Ok(())
}
