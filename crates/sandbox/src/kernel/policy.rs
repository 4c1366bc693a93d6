//! What a tenant may open: the image's programs to read, its own workspace to
//! write, and little else.
//!
//! The kernel enforces it (Landlock), for the worker and for everything that
//! comes of it. Paths are opened once, by the spawner; a worker only has to put
//! them into a ruleset of its own, together with its workspace.

mod mounts;

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::libc::{O_CLOEXEC, O_PATH};
use thiserror::Error;

pub(crate) use self::mounts::mount_points;

/// The newest rights this was written and tested with. An older kernel enforces
/// those it knows, and [`Policy::probe`] says how far that is.
const NEWEST: ABI = ABI::V9;

/// Devices that programs expect.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What runtimes read to learn of the machine. None of it is about processes.
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

/// What a spawner lets its tenants open.
#[derive(Debug)]
pub(crate) struct Policy {
    places: Vec<OpenedPath>,
}

/// A path that was opened, so that it cannot be replaced.
#[derive(Debug)]
struct OpenedPath {
    path: PathBuf,
    opened: OwnedFd,
    rights: BitFlags<AccessFs>,
    is_image: bool,
}

/// What a single worker may do beyond that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtraAccess {
    /// Further paths to read.
    pub(crate) read: Vec<PathBuf>,
    /// Further directories to write to.
    pub(crate) write: Vec<PathBuf>,
    /// TCP ports to connect to; `None` for any.
    pub(crate) ports: Option<Vec<u16>>,
}

/// Why a policy is not made or not enforced.
#[derive(Debug, Error)]
pub(crate) enum NoPolicy {
    #[error("cannot tell the image from what is mounted into it: {0}")]
    Mounts(io::Error),
    #[error("{path}: {error}")]
    Open { path: PathBuf, error: io::Error },
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    #[error("landlock enforces nothing here")]
    NotEnforced,
}

impl Policy {
    /// Opens what every tenant may use: the image less `hidden`, and `search`,
    /// the directories of programs, wherever they come from.
    pub(crate) fn new(hidden: &[PathBuf], search: &[PathBuf]) -> Result<Self, NoPolicy> {
        let mounts = mount_points().map_err(NoPolicy::Mounts)?;
        let hidden: BTreeSet<PathBuf> = hidden.iter().cloned().collect();
        let image = mounts::image(&mounts, &hidden);
        let is_shown = |path: &&PathBuf| {
            !hidden.iter().any(|hidden| hidden.starts_with(path) || path.starts_with(hidden))
        };
        let programs = search.iter().filter(is_shown).cloned();
        let image = image.into_iter().chain(programs).map(|path| (path, read(), true));
        let machine = MACHINE.iter().map(|path| (PathBuf::from(path), read(), false));
        let devices = DEVICES.iter().map(|path| (PathBuf::from(path), device(), false));
        // What is not there, or may not even be named, needs no permission.
        let places = image.chain(machine).chain(devices).filter_map(|(path, rights, is_image)| {
            let opened = open(&path).ok()?;
            Some(OpenedPath { rights: of_kind(&opened, rights), path, opened, is_image })
        });
        Ok(Self { places: places.collect() })
    }

    /// The paths of programs and what they need.
    pub(crate) fn image(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|place| place.is_image).map(|place| place.path.as_path())
    }

    /// Restricts this process and all that come of it, for good.
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
        for (paths, rights) in [(&extra.read, read()), (&extra.write, write())] {
            for path in paths {
                let place =
                    open(path).map_err(|error| NoPolicy::Open { path: path.clone(), error })?;
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

    /// Runs in a child: the version of Landlock this kernel enforces, 0 for none.
    pub(crate) fn probe() -> i32 {
        let restrict = || {
            let handled = AccessFs::from_all(NEWEST);
            Ruleset::default().handle_access(handled)?.create()?.restrict_self()
        };
        match restrict().map(|status: RestrictionStatus| status.landlock) {
            Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi as i32,
            Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => 0,
        }
    }
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST)
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev
}

/// Everything but making devices and talking to them.
fn write() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// The rights that make sense for what a place is: the kernel refuses others.
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
