//! Prepares everything that must exist before the first lease.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use cmp_procfs::ChildList;
use nix::{
    errno::Errno,
    sys::{
        statfs::{TMPFS_MAGIC, fstatfs},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, Uid, geteuid, getppid},
};

use super::{
    caches::{self, CACHES, CacheRoot},
    census,
    cgroup::{Cgroups, NoCgroups},
    cleaner, descendants, needed,
    not_prepared::{NotPrepared, Unavailable, sentences},
    pressure::ContainerMemory,
    process_check::ProcessCheck,
    reserve::Kit,
    root::{self, WorkspaceRoot},
    uid_pool::UidPool,
};
use crate::{
    kernel::{
        filter::{self, Filter},
        fork::SingleThreaded,
        policy::{self, NoPolicy, Policy, covers_signals},
        privilege::become_user,
    },
    wire::{
        message::{HomePartOrder, SetupOrder},
        skeleton::{HomePart, Skeleton},
        tier::{Demand, Tier},
    },
    worker::{HomeContents, PathRules, PodGroups, WorkerContext, namespaces, namespaces::Roots},
};

/// Everything that leases and workers need.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Process ID of the spawner.
    spawner: Pid,
    pub(super) tier: Tier,
    pub(super) uids: Option<UidPool>,
    /// Method to find out whether a UID owns processes.
    pub(super) process_check: ProcessCheck,
    /// The kernel's list of the spawner's children, if it shows what requests leave.
    pub(super) children: Option<ChildList>,
    pub(super) root: WorkspaceRoot,
    pub(super) caches: CacheRoot,
    /// Paths that no request may access.
    pub(super) paths: PathRules,
    /// Groups of the Pod that requests may get.
    pub(super) pod_groups: PodGroups,
    /// Files of the image for the HOME of each request.
    pub(super) skeleton: HomeContents,
    pub(super) policy: Option<Policy>,
    /// The part that the roots of requests have in common, if they have roots.
    pub(super) roots: Roots,
    /// Version of Landlock that the kernel enforces; 0 for none.
    pub(super) landlock: i32,
    /// Reasons why stronger tiers are not available.
    pub(super) missing: Vec<String>,
    /// A cgroup for each request, or the reason why there is none.
    pub(super) cgroups: Result<Cgroups, NoCgroups>,
    /// UID of the process that counts the others; `None` for the spawner's.
    pub(super) census_user: Option<Uid>,
    /// Socket to ask the kernel about sockets, or the reason why there is none.
    pub(super) diagnostics: io::Result<OwnedFd>,
    /// The filter of system calls, of which the spawner has installed a part.
    pub(super) filter: Filter,
    /// Accesses that the kernel refuses to commands are reported.
    pub(super) observes: bool,
    /// Usage of the container, unless requests have cgroups.
    pub(super) memory: Option<ContainerMemory>,
}

impl Prepared {
    /// Everything that processes on standby need.
    pub(super) fn kit(&self, fork: SingleThreaded) -> Kit<'_> {
        let worker = WorkerContext {
            fork,
            parent: self.spawner,
            tier: self.tier,
            policy: self.policy.as_ref(),
            paths: &self.paths,
            pod_groups: &self.pod_groups,
            skeleton: &self.skeleton,
            root: self.root.directory.as_fd(),
            root_path: &self.root.path,
            roots: &self.roots,
            filter: &self.filter,
            observes: self.observes,
        };
        Kit { worker, uids: self.uids.as_ref() }
    }

    /// Rights of the process that removes files.
    pub(super) fn cleaner_rights(&self) -> cleaner::Rights<'_> {
        let within = self.policy.as_ref().map(|_| self.root.path.as_path());
        cleaner::Rights { uids: self.uids.as_ref(), within }
    }
}

/// Prepares the first requested tier that is fully available.
pub(super) fn prepare(fork: SingleThreaded, setup: &SetupOrder) -> Result<Prepared, NotPrepared> {
    needed::try_calls()?;
    let probed = probe_landlock(fork)?;
    let landlock = probed.unwrap_or_default();
    let mut missing = Vec::new();
    for tier in setup.tiers() {
        match has(tier, fork, setup, probed) {
            Ok(uids) => {
                let available = Available { tier, uids, landlock, missing: sentences(&missing) };
                let built = build(fork, available, setup);
                return built.map_err(|error| error.below(missing, tier));
            }
            Err(unavailable) => missing.push((tier, unavailable)),
        }
    }
    Err(NotPrepared::Tiers(missing))
}

/// The tier that requests get.
struct Available {
    tier: Tier,
    /// `None` in tiers without separate UIDs.
    uids: Option<UidPool>,
    /// Version of Landlock that the kernel enforces; 0 for none.
    landlock: i32,
    /// Reasons why stronger tiers are not available.
    missing: Vec<String>,
}

/// Checks whether a tier is available. Returns its UIDs if it has separate
/// ones.
fn has(
    tier: Tier,
    fork: SingleThreaded,
    setup: &SetupOrder,
    landlock: Result<i32, Errno>,
) -> Result<Option<UidPool>, Unavailable> {
    match (tier, landlock) {
        (Tier::Landlock, Err(errno)) => return Err(Unavailable::NoLandlock(errno)),
        (Tier::Landlock, Ok(version)) if !covers_signals(version) => {
            return Err(Unavailable::OldLandlock(version));
        }
        (Tier::Landlock, Ok(_)) if geteuid().is_root() && setup.shared_uid == 0 => {
            return Err(Unavailable::AsRoot);
        }
        (Tier::None, _) | (Tier::Landlock, Ok(_)) => return Ok(None),
        (Tier::Uid | Tier::Namespaces, Err(errno)) if !setup.accept_no_landlock => {
            return Err(Unavailable::NoLandlockBesides(errno));
        }
        (Tier::Uid | Tier::Namespaces, _) => {}
    }
    if tier == Tier::Namespaces {
        namespaces::probe(fork).map_err(Unavailable::Namespaces)?;
    }
    // A group that owns caches must not become the UID of a request. Neither must the UID
    // that the supervisor takes later: killers would end the supervisor.
    let path = Path::new(&setup.work_dir).join(CACHES);
    let groups = caches::groups(&path).map_err(|error| Unavailable::CacheRoot { path, error })?;
    let reserved = groups.into_iter().chain([setup.shared_uid]).collect();
    Ok(Some(UidPool::claim(setup.first_uid, setup.uid_count, setup.leases, reserved)?))
}

/// Creates everything for a tier that is available.
fn build(
    fork: SingleThreaded,
    available: Available,
    setup: &SetupOrder,
) -> Result<Prepared, NotPrepared> {
    let Available { tier, uids, landlock, missing } = available;
    let killer = uids.as_ref().and_then(UidPool::any_killer);
    let process_check =
        killer.map_or(ProcessCheck::Listing, |killer| ProcessCheck::of(fork, killer));
    let pod_groups = uids.as_ref().map(|uids| uids.pod_groups(landlock)).unwrap_or_default();
    let shared = uids.is_none().then_some(setup.shared_uid);
    let work_dir = Path::new(&setup.work_dir);
    let has_roots = tier == Tier::Namespaces;
    has_roots.then(namespaces::separate_mounts).transpose().map_err(NotPrepared::Roots)?;
    let root = WorkspaceRoot::make(work_dir, shared)?;
    let is_in_memory = is_in_memory(&root)?;
    let (path, _) = root::make(&work_dir.join(CACHES), caches::MODE, shared)?;
    let caches = CacheRoot::new(path);
    // Before the spawner becomes another user and denies itself system calls.
    let cgroups = cgroups(fork, setup, is_in_memory, shared)?;
    shared.map_or(Ok(()), |uid| become_shared(fork, Uid::from_raw(uid)))?;
    let frame = root.path.with_file_name(root::FRAME);
    let paths = path_rules(setup, [root.path.clone(), caches.path.clone(), frame.clone()]);
    let is_restricted = tier != Tier::None && landlock > 0;
    let mut skeleton = home_contents(setup);
    // Roots have its paths, even without Landlock.
    let is_needed = is_restricted || has_roots;
    let policy = is_needed.then(|| policy(setup, &paths, &skeleton)).transpose()?;
    skeleton.add_mounts(policy.iter().flat_map(Policy::readable_mounts));
    let is_open =
        |path: &Path| policy.iter().flat_map(Policy::image).any(|at| path.starts_with(at));
    skeleton.hold(is_open, |path| root::read_as(setup.shared_uid, path));
    let make_roots = || Roots::make(policy.as_ref(), frame, [&root.path, &caches.path]);
    let roots = has_roots.then(make_roots).transpose().map_err(NotPrepared::Roots)?;
    let census_user = shared.is_none().then(|| Uid::from_raw(setup.shared_uid));
    let memory = if cgroups.is_ok() { None } else { ContainerMemory::find() };
    // The filter forbids it.
    let diagnostics = census::open_sockets();
    let filter = if setup.observes {
        Filter::of_workers(tier)
    } else {
        let starts_in_cgroups = cgroups.as_ref().is_ok_and(Cgroups::starts_inside);
        Filter::of(tier, filter::Spawner { starts_in_cgroups, is_root: geteuid().is_root() })
    };
    filter.install_common()?;
    Ok(Prepared {
        spawner: Pid::this(),
        tier,
        uids,
        process_check,
        children: descendants::list(fork),
        root,
        caches,
        paths,
        pod_groups,
        skeleton,
        policy: policy.filter(|_| is_restricted),
        roots: roots.unwrap_or_default(),
        landlock,
        missing,
        cgroups,
        census_user,
        diagnostics,
        filter,
        observes: setup.observes,
        memory,
    })
}

/// True if workspaces are in memory. Their requests need a file in memory, too.
fn is_in_memory(root: &WorkspaceRoot) -> Result<bool, NotPrepared> {
    let about = fstatfs(&root.directory);
    let is_in_memory = about.is_ok_and(|about| about.filesystem_type() == TMPFS_MAGIC);
    is_in_memory.then(needed::try_file_in_memory).transpose()?;
    Ok(is_in_memory)
}

/// Opens the cgroups of requests as far as they are wanted.
fn cgroups(
    fork: SingleThreaded,
    setup: &SetupOrder,
    counts_files: bool,
    shared: Option<u32>,
) -> Result<Result<Cgroups, NoCgroups>, NotPrepared> {
    let opened = match setup.request_cgroups() {
        Demand::Off => Err(NoCgroups::Off),
        Demand::Auto | Demand::Require if shared.is_some() && geteuid().is_root() => {
            Err(NoCgroups::NoRoot)
        }
        Demand::Auto | Demand::Require => Cgroups::open(fork, getppid(), counts_files),
    };
    match opened {
        Err(reason) if setup.request_cgroups() == Demand::Require => {
            Err(NotPrepared::Cgroups(reason))
        }
        opened => Ok(opened),
    }
}

/// Switches to the UID that all requests have, and checks that their processes can be
/// counted.
fn become_shared(fork: SingleThreaded, user: Uid) -> Result<(), NotPrepared> {
    let failed = |step| move |error| NotPrepared::Step { step, error };
    become_user(user).map_err(Into::into).map_err(failed("switch to the shared UID"))?;
    let is_possible = census::is_possible(fork);
    let is_possible = is_possible.map_err(failed("look for processes in /proc"))?;
    is_possible.then_some(()).ok_or(NotPrepared::Hidden)
}

/// The paths that tenants may not read, and `own` paths of the sandbox.
pub(crate) fn path_rules(setup: &SetupOrder, own: [PathBuf; 3]) -> PathRules {
    let paths = |list: &[String]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    PathRules {
        hidden: both(paths(&setup.hidden).into_iter().chain(own).collect()),
        secret: both(paths(&setup.secret)),
        shown: paths(&setup.shown),
        scripts: paths(&setup.scripts),
    }
}

/// Paths that every tenant may access.
pub(crate) fn policy(
    setup: &SetupOrder,
    paths: &PathRules,
    homes: &HomeContents,
) -> Result<Policy, NoPolicy> {
    let programs: Vec<PathBuf> = setup.programs.iter().map(PathBuf::from).collect();
    Policy::new(&paths.all(), &programs, &homes.opened())
}

/// Files of the image for the HOME of each request.
pub(crate) fn home_contents(setup: &SetupOrder) -> HomeContents {
    HomeContents::find(skeleton(setup))
}

fn skeleton(setup: &SetupOrder) -> Skeleton {
    let part = |HomePartOrder { source, target, depth, opens }: &HomePartOrder| HomePart {
        source: source.into(),
        target: target.into(),
        depth: *depth,
        opens: *opens,
    };
    let homes = setup.homes.iter().map(PathBuf::from).collect();
    Skeleton { homes: both(homes), parts: setup.home_parts.iter().map(part).collect() }
}

/// Paths with and without links resolved.
fn both(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<_> = paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    paths.extend(real);
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The version of Landlock that the kernel enforces, or the error of the call that is refused.
fn probe_landlock(fork: SingleThreaded) -> Result<Result<i32, Errno>, NotPrepared> {
    let failed = |error| NotPrepared::Step { step: "probe Landlock", error };
    let child = fork.fork(|| policy::code_of(Policy::probe())).map_err(failed)?;
    match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, code)) => Ok(policy::of_code(code)),
        // Some profiles kill instead.
        Ok(_) => Ok(Err(Errno::EPERM)),
        Err(error) => Err(failed(error.into())),
    }
}
