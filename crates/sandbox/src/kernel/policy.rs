//! The Landlock policy: a tenant may read the image's programs, write its own
//! workspace, and access little else.
//!
//! It applies to the worker and its descendants. The spawner opens the paths
//! once. A worker adds them and its workspace to its own ruleset.

mod mounts;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

use cmp_procfs::Mount;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::{
    errno::Errno,
    libc::{O_CLOEXEC, O_PATH},
};
use thiserror::Error;

use self::mounts::Mounts;
pub use self::mounts::home_above;
pub(crate) use self::mounts::{KERNEL, mount_points};

/// The newest version of Landlock that was tested. On an older kernel, fewer
/// rights are enforced; [`Policy::probe`] returns its version.
const NEWEST: ABI = ABI::V9;

/// Devices that programs expect.
pub(crate) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Files about the machine that language runtimes read. None shows other
/// processes.
const MACHINE: [&str; 13] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/sys/net/core",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Paths that all tenants may access.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Paths of the image and of programs.
    image: Vec<PathBuf>,
    /// The paths of the image and others, without paths below another one.
    places: Vec<OpenedPath>,
    /// Mount points in the image that all tenants may read.
    readable_mounts: Vec<PathBuf>,
    /// Paths about the machine outside `/proc`, without those in which the container's
    /// runtime hides something by a mount.
    machine: Vec<PathBuf>,
}

/// A path that stays open, so that it cannot be replaced.
#[derive(Debug)]
struct OpenedPath {
    opened: OwnedFd,
    rights: BitFlags<AccessFs>,
}

/// Access of a single worker in addition to the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtraAccess {
    /// Paths to read.
    pub(crate) read: Vec<PathBuf>,
    /// Directories to write to.
    pub(crate) write: Vec<PathBuf>,
    /// Those in which no sockets can be made, because other requests write to them as well.
    pub(crate) shared: Vec<PathBuf>,
    /// TCP ports to connect to; `None` for all.
    pub(crate) ports: Option<Vec<u16>>,
}

/// Reasons why a policy cannot be created or enforced.
#[derive(Debug, Error)]
pub(crate) enum NoPolicy {
    #[error("cannot read the mounts of this process: {0}")]
    Mounts(io::Error),
    #[error("{path}: {error}")]
    Open { path: PathBuf, error: io::Error },
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    #[error("the kernel does not enforce Landlock")]
    NotEnforced,
}

impl Policy {
    /// Opens the paths that every tenant may use: the image without `hidden` and
    /// without secrets, the directories of programs in `search`, and `homely` paths
    /// in home directories.
    pub(crate) fn new(
        hidden: &[PathBuf],
        search: &[PathBuf],
        homely: &[PathBuf],
    ) -> Result<Self, NoPolicy> {
        let table = cmp_procfs::mounts().map_err(NoPolicy::Mounts)?;
        let hidden: BTreeSet<PathBuf> = hidden.iter().cloned().collect();
        let mounts = Mounts::of(&table, &hidden, search);
        let image = mounts.image(&hidden, homely);
        let is_shown = |path: &&PathBuf| {
            !hidden.iter().any(|hidden| hidden.starts_with(path) || path.starts_with(hidden))
        };
        let programs = search.iter().filter(is_shown).cloned();
        let image: Vec<PathBuf> = image.into_iter().chain(programs).collect();
        let places = outermost(&image).into_iter().map(|path| (path, read()));
        let machine = MACHINE.iter().map(|path| (PathBuf::from(path), read()));
        let devices = DEVICES.iter().map(|path| (PathBuf::from(path), device()));
        // A path that does not exist needs no rule.
        let places = places.chain(machine).chain(devices).filter_map(|(path, rights)| {
            let opened = open(&path).ok()?;
            Some(OpenedPath { rights: of_kind(&opened, rights), opened })
        });
        let readable_mounts = mounts.readable.into_iter().collect();
        Ok(Self { places: places.collect(), image, readable_mounts, machine: unmasked(&table) })
    }

    /// Paths of the image and of programs.
    pub(crate) fn image(&self) -> impl Iterator<Item = &Path> {
        self.image.iter().map(PathBuf::as_path)
    }

    /// Paths of the image, of programs and about the machine, without those in `/proc`, of
    /// which a request in namespaces has its own.
    pub(crate) fn outside_proc(&self) -> impl Iterator<Item = &Path> {
        self.image().chain(self.machine.iter().map(PathBuf::as_path))
    }

    /// Descriptors that [`Self::enforce`] needs.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.places.iter().map(|place| place.opened.as_fd())
    }

    /// Mount points in the image that all tenants may read.
    pub(crate) fn readable_mounts(&self) -> impl Iterator<Item = &Path> {
        self.readable_mounts.iter().map(PathBuf::as_path)
    }

    /// Restricts this process and its descendants permanently.
    pub(crate) fn enforce(
        &self,
        workspace: BorrowedFd<'_>,
        extra: &ExtraAccess,
    ) -> Result<RestrictionStatus, NoPolicy> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if extra.ports.is_some() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let mut created = ruleset.create()?.add_rule(PathBeneath::new(workspace, write()))?;
        for place in &self.places {
            created = created.add_rule(PathBeneath::new(place.opened.as_fd(), place.rights))?;
        }
        let kinds = [(&extra.read, read()), (&extra.write, write()), (&extra.shared, share())];
        for (paths, rights) in kinds {
            for path in paths {
                let place = match open(path) {
                    Ok(place) => place,
                    // Unmounted since it was resolved: there is nothing to read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && rights == read() => {
                        continue;
                    }
                    Err(error) => return Err(NoPolicy::Open { path: path.clone(), error }),
                };
                created = created.add_rule(PathBeneath::new(&place, of_kind(&place, rights)))?;
            }
        }
        for port in extra.ports.iter().flatten() {
            created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
        let status = created.restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(NoPolicy::NotEnforced),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(status),
        }
    }

    /// Runs in a child. Returns the version of Landlock that the kernel enforces, or the error
    /// of the call that is refused.
    pub(crate) fn probe() -> Result<i32, Errno> {
        let root = open(Path::new("/"))
            .map_err(|error| error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw))?;
        let restrict = || {
            let created = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.create()?;
            created.add_rule(PathBeneath::new(&root, read()))?.restrict_self()
        };
        Errno::clear();
        match restrict().map(|status: RestrictionStatus| status.landlock) {
            Ok(LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as i32),
            Ok(LandlockStatus::NotEnabled) => Err(Errno::EOPNOTSUPP),
            // The library takes every other error for this one; the last call that failed is
            // that of Landlock.
            Ok(LandlockStatus::NotImplemented) | Err(_) => {
                Err(Some(Errno::last()).filter(|errno| *errno as i32 != 0).unwrap_or(Errno::ENOSYS))
            }
        }
    }
}

/// Bit of an exit code that says that the others are an error.
const ERROR: i32 = 0x80;

/// An exit code with the result of [`Policy::probe`].
pub(crate) fn code_of(probed: Result<i32, Errno>) -> i32 {
    probed.unwrap_or_else(|errno| ERROR | errno as i32)
}

/// The result of [`Policy::probe`] with this exit code.
pub(crate) fn of_code(code: i32) -> Result<i32, Errno> {
    if code & ERROR == 0 { Ok(code) } else { Err(Errno::from_raw(code & !ERROR)) }
}

/// Lets this process and its descendants change only what is below `writable`, and
/// devices. What [`Policy::enforce`] denies stays denied.
pub(crate) fn restrict_changes(writable: impl Iterator<Item = PathBuf>) -> Result<(), NoPolicy> {
    let places = writable.chain(DEVICES.map(PathBuf::from));
    restrict(change(), places.map(|place| (place, change())))
}

/// Lets this process and its descendants create sockets only below `places`. What
/// [`Policy::enforce`] denies stays denied.
pub(crate) fn restrict_sockets(places: impl Iterator<Item = PathBuf>) -> Result<(), NoPolicy> {
    // Landlock refuses to move and link files between directories wherever no rule of each
    // layer allows it.
    let moves = (PathBuf::from("/"), AccessFs::Refer.into());
    let sockets = places.map(|place| (place, AccessFs::MakeSock.into()));
    restrict(AccessFs::MakeSock | AccessFs::Refer, sockets.chain([moves]))
}

fn restrict(
    handled: BitFlags<AccessFs>,
    places: impl Iterator<Item = (PathBuf, BitFlags<AccessFs>)>,
) -> Result<(), NoPolicy> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let mut created = ruleset.handle_access(handled)?.create()?;
    for (path, rights) in places {
        // A path that does not exist needs no rule.
        let Ok(place) = open(&path) else { continue };
        created = created.add_rule(PathBeneath::new(&place, of_kind(&place, rights)))?;
    }
    match created.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(NoPolicy::NotEnforced),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// True if this version of Landlock refuses to rename and link files between directories: the
/// first one has no right for it. 0 is no Landlock.
#[must_use]
pub fn refuses_moves(landlock: i32) -> bool {
    landlock == ABI::V1 as i32
}

/// True if this version of Landlock has no right for truncation, so that the sandbox refuses
/// it in tier `uid`. 0 is no Landlock.
#[must_use]
pub fn refuses_truncation(landlock: i32) -> bool {
    (ABI::V1 as i32..ABI::V3 as i32).contains(&landlock)
}

/// True if this version of Landlock covers TCP ports.
#[must_use]
pub fn covers_ports(landlock: i32) -> bool {
    landlock >= ABI::V4 as i32
}

/// True if this version of Landlock covers signals and abstract sockets. Requests with the
/// same UID need it to be isolated.
pub(crate) fn covers_signals(landlock: i32) -> bool {
    landlock >= ABI::V6 as i32
}

/// The paths that do not lie below another one of them. A rule for a directory covers
/// everything below it.
fn outermost(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut real: Vec<PathBuf> =
        paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    // A directory comes before everything below it.
    real.sort_unstable();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in real {
        if !outermost.last().is_some_and(|outer| path.starts_with(outer)) {
            outermost.push(path);
        }
    }
    outermost
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST)
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev
}

/// All rights except creating devices and sending them ioctls.
fn write() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// The same except creating sockets. Through one, requests could pass on files in their own
/// directories in memory, which then count for nobody and stay when the first request has ended.
fn share() -> BitFlags<AccessFs> {
    write() & !AccessFs::MakeSock
}

/// Rights to change files and directories.
fn change() -> BitFlags<AccessFs> {
    AccessFs::from_write(NEWEST) & !(AccessFs::IoctlDev | AccessFs::ResolveUnix)
}

/// The kernel rejects rights for directories in rules for files.
fn of_kind(place: &OwnedFd, rights: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    let is_directory = File::from(match place.try_clone() {
        Ok(copy) => copy,
        Err(_) => return rights,
    })
    .metadata()
    .is_ok_and(|about| about.is_dir());
    if is_directory { rights } else { rights & AccessFs::from_file(NEWEST) }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let options = File::options().read(true).custom_flags(O_PATH | O_CLOEXEC).open(path);
    options.map(OwnedFd::from)
}

/// Paths about the machine outside `/proc` in which nothing but cgroups is mounted.
fn unmasked(table: &[Mount]) -> Vec<PathBuf> {
    let hides = |mount: &Mount, path: &Path| {
        let is_below = mount.point.starts_with(path) && mount.point != path;
        is_below && !["cgroup", "cgroup2"].contains(&mount.kind.as_str())
    };
    let paths = MACHINE.iter().map(PathBuf::from).filter(|path| !path.starts_with("/proc"));
    paths.filter(|path| !table.iter().any(|mount| hides(mount, path))).collect()
}

#[cfg(test)]
mod tests;
