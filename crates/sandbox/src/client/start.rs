//! Starts the spawner, before the supervisor has anything that must not be
//! inherited.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cmp_procfs::unmapped;
use nix::unistd::geteuid;
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::setup::{Setup, UnfitPaths, order};
use crate::{
    kernel::no_process::{refused, with_remedy},
    wire::{
        channel,
        message::{Ready, SpawnerEvent, SpawnerReport},
        shortage::{Need, Shortage, Unfitness},
        tier::Tier,
        transient::persist,
    },
};

/// Abilities of a running spawner.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Most leases at one time.
    pub leases: u32,
    /// The isolation tier in use.
    pub tier: Tier,
    /// Version of Landlock that the kernel enforces; 0 for none.
    pub landlock: i32,
    /// Reasons why stronger tiers are not available, one sentence each.
    pub missing: Vec<String>,
    /// Directory of all workspaces.
    pub root: PathBuf,
    /// The kernel does not enforce `RLIMIT_NPROC`. Unknown in tiers without
    /// separate UIDs.
    pub unlimited: bool,
    /// Files of the image that tools look up and requests cannot read, one sentence
    /// each.
    pub closed: Vec<String>,
    /// Reason why requests have no cgroups; `None` if they have.
    pub no_cgroups: Option<String>,
    /// Reason why sockets of requests are not measured, with the consequence and the remedy;
    /// `None` if they are.
    pub unlisted_sockets: Option<String>,
}

/// A spawner that is ready for orders. It ends when this is dropped.
#[derive(Debug)]
pub struct Spawner {
    pub(super) control: OwnedFd,
    pub(super) abilities: Abilities,
}

/// Reasons why there is no spawner.
#[derive(Debug, Error)]
pub enum NotStarted {
    /// The process could not be started.
    #[error("cannot start the spawner: {}", with_remedy(.0))]
    Start(#[source] io::Error),
    /// A device that each process needs cannot be opened.
    #[error("cannot open {0}: {1}: create it, as each container runtime does")]
    NoDevice(&'static str, #[source] io::Error),
    /// There are no random numbers.
    #[error("cannot get random numbers: {0}: create /dev/urandom, as each container runtime does")]
    NoRandom(#[source] SysError),
    /// `/proc` cannot be read.
    #[error("cannot read /proc/self: {0}: mount procfs at /proc, as each container runtime does")]
    NoProc(#[source] io::Error),
    /// `/proc` has other numbers for processes than signals need.
    #[error(
        "/proc shows the processes of another PID namespace: mount the procfs of this one there, \
         with mount -t proc proc /proc"
    )]
    ForeignProc,
    /// The UID that root switches to does not exist in its user namespace.
    #[error(
        "UID {0} is not mapped in this user namespace, and root must switch to it: set --run-as-uid \
         of `serve` to one that is mapped, or run this as a user other than root"
    )]
    Unmapped(u32),
    /// The paths of its configuration cannot be sent.
    #[error(transparent)]
    Paths(#[from] UnfitPaths),
    /// The process ended without a report.
    #[error("the spawner ended before it was ready: {0}")]
    Silent(#[source] io::Error),
    /// The spawner cannot provide what the configuration requires.
    #[error("{reason}")]
    NotReady {
        /// The reason and the remedy.
        reason: String,
        /// The requested tiers that are not available, with reasons; empty for
        /// other errors.
        shortfalls: Vec<Shortfall>,
    },
}

/// A tier that is not available, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The tier.
    pub tier: Tier,
    /// The missing requirement.
    pub need: Need,
    /// Why it is not met.
    pub reason: String,
}

/// First argument that starts this program as a spawner.
pub const SPAWNER: &str = "spawner";

/// The device that standard input and output of the spawner are.
const NULL: &str = "/dev/null";

impl Spawner {
    /// Starts this program again as a spawner and waits until it is ready.
    ///
    /// Call it before starting any thread and before dropping privileges.
    pub fn start(setup: &Setup) -> Result<(Self, SpawnerProcess), NotStarted> {
        if !cmp_procfs::shows_own().map_err(NotStarted::NoProc)? {
            return Err(NotStarted::ForeignProc);
        }
        let user = setup.shared_uid;
        if geteuid().is_root() && unmapped(user..=user).map_err(NotStarted::NoProc)?.is_some() {
            return Err(NotStarted::Unmapped(user));
        }
        File::options()
            .write(true)
            .open(NULL)
            .map_err(|error| NotStarted::NoDevice(NULL, error))?;
        // The library panics later.
        SysRng.try_next_u64().map_err(NotStarted::NoRandom)?;
        let order = order(setup)?;
        let (control, theirs) = channel::packet_pair().map_err(NotStarted::Start)?;
        // `/proc/self/exe` is this program even if its file has been replaced.
        // The environment is empty because it may hold secrets of plugins.
        let process = Command::new("/proc/self/exe")
            .arg0("cmp-supervisor")
            .arg(SPAWNER)
            .args(&setup.arguments)
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| NotStarted::Start(refused(error)))?;
        persist(|| channel::send(&control, &order, &[])).map_err(NotStarted::Start)?;
        let abilities = ready(&control)?;
        Ok((Self { control, abilities }, SpawnerProcess(process)))
    }

    /// Abilities of this spawner.
    #[must_use]
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }
}

/// The spawner's process.
#[derive(Debug)]
pub struct SpawnerProcess(Child);

impl SpawnerProcess {
    /// Waits until the process has ended, at most for `patience`. It ends all
    /// leases and itself when the last [`Spawner`] or link is dropped.
    pub fn wait(mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Time between two checks whether the process has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

fn ready(control: &OwnedFd) -> Result<Abilities, NotStarted> {
    let received = persist(|| channel::receive::<SpawnerReport>(control));
    let received = received.map_err(NotStarted::Silent)?;
    match received.and_then(|(report, _)| report.event) {
        Some(SpawnerEvent::Ready(ready)) => Ok(ready.into()),
        Some(SpawnerEvent::NotReady(Unfitness { reason, shortages })) => {
            let shortfalls = shortages.into_iter().map(Shortfall::from).collect();
            Err(NotStarted::NotReady { reason, shortfalls })
        }
        Some(
            SpawnerEvent::Leased(_)
            | SpawnerEvent::WorkerEnded(_)
            | SpawnerEvent::Released(_)
            | SpawnerEvent::Quarantined(_)
            | SpawnerEvent::Beat(_)
            | SpawnerEvent::Left(_)
            | SpawnerEvent::Orphans(_)
            | SpawnerEvent::LimitExceeded(_)
            | SpawnerEvent::Usage(_),
        )
        | None => Err(NotStarted::Silent(io::ErrorKind::UnexpectedEof.into())),
    }
}

impl From<Shortage> for Shortfall {
    fn from(shortage: Shortage) -> Self {
        let (tier, need) = (shortage.tier(), shortage.need());
        Self { tier, need, reason: shortage.reason }
    }
}

impl From<Ready> for Abilities {
    fn from(ready: Ready) -> Self {
        Self {
            leases: ready.leases,
            tier: ready.tier(),
            landlock: ready.landlock,
            missing: ready.missing,
            root: ready.root.into(),
            unlimited: ready.unlimited,
            closed: ready.closed,
            no_cgroups: ready.no_cgroups,
            unlisted_sockets: ready.unlisted_sockets,
        }
    }
}
