//! Starting the spawner, before there is anything it must not inherit.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{self, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::{
    channel,
    message::{self, Order, OrderKind, Ready, SpawnerEvent, SpawnerReport, TierName},
    shortage::{Need, Shortage, Unfitness},
    tier::Tier,
};

/// What the spawner has to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Tiers to try, the first that can be had in full counts.
    pub tiers: Vec<Tier>,
    /// First of the users to be leased.
    pub first_uid: u32,
    /// How many follow, the first included.
    pub uid_count: u32,
    /// The user of workers that share one, when started as root.
    pub shared_uid: u32,
    /// Most requests at a time.
    pub leases: u32,
    /// Where workspaces are made.
    pub work_dir: PathBuf,
    /// Paths that no request may open, whatever else allows it.
    pub hidden: Vec<PathBuf>,
    /// Directories of programs, which every request may read.
    pub programs: Vec<PathBuf>,
    /// Distinct users will do where the kernel has no Landlock.
    pub accept_no_landlock: bool,
}

/// What a spawner can do.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// How many requests there can be at a time.
    pub leases: u32,
    /// How strongly they are kept apart.
    pub tier: Tier,
    /// The version of Landlock that is enforced, 0 for none.
    pub landlock: i32,
    /// Why no stronger tier is had, a sentence for each.
    pub missing: Vec<String>,
    /// The directory of workspaces.
    pub root: PathBuf,
    /// Limits of processes have no effect. Not known where all share a user.
    pub unlimited: bool,
}

/// A spawner that is ready for orders. It ends when this is dropped.
#[derive(Debug)]
pub struct Spawner {
    pub(super) control: OwnedFd,
    pub(super) abilities: Abilities,
}

/// Why there is no spawner.
#[derive(Debug, Error)]
pub enum NotStarted {
    /// The process could not be started.
    #[error("cannot start the spawner: {0}")]
    Start(#[source] io::Error),
    /// It ended without a word.
    #[error("the spawner ended before it was ready: {0}")]
    Silent(#[source] io::Error),
    /// It cannot give what was asked for.
    #[error("{reason}")]
    NotReady {
        /// Why, and what to do.
        reason: String,
        /// Why each tier that was asked for is not available, if that is why.
        shortfalls: Vec<Shortfall>,
    },
}

/// Why a tier is not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The tier.
    pub tier: Tier,
    /// What would make it available.
    pub need: Need,
    /// Why it is not.
    pub reason: String,
}

/// The first argument that makes this program a spawner.
pub const SPAWNER: &str = "spawner";

impl Spawner {
    /// Starts this program again as a spawner and waits until it is ready.
    ///
    /// To be called before any thread is started or privilege given up.
    pub fn start(setup: &Setup) -> Result<(Self, SpawnerProcess), NotStarted> {
        let (control, theirs) = channel::packet_pair().map_err(NotStarted::Start)?;
        // Through /proc, so that it is this very program even if its file was
        // replaced. Nothing of the environment: plugins' secrets may be in it.
        let process = Command::new("/proc/self/exe")
            .arg0("cmp-supervisor")
            .arg(SPAWNER)
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()
            .map_err(NotStarted::Start)?;
        let order = Order { what: Some(OrderKind::Setup(setup.into())) };
        channel::send(&control, &order, &[]).map_err(NotStarted::Start)?;
        let abilities = ready(&control)?;
        Ok((Self { control, abilities }, SpawnerProcess(process)))
    }

    /// What it can do.
    #[must_use]
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }
}

/// The spawner's process.
#[derive(Debug)]
pub struct SpawnerProcess(Child);

impl SpawnerProcess {
    /// Waits until it has ended every lease and itself, but not longer than
    /// `patience`: it does so once nothing is left that gives it orders.
    pub fn wait(mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Time between two looks at a process that ends.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

fn ready(control: &OwnedFd) -> Result<Abilities, NotStarted> {
    let received = channel::receive::<SpawnerReport>(control).map_err(NotStarted::Silent)?;
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
            | SpawnerEvent::Left(_)
            | SpawnerEvent::LimitExceeded(_),
        )
        | None => Err(NotStarted::Silent(io::ErrorKind::UnexpectedEof.into())),
    }
}

impl From<&Setup> for message::SetupOrder {
    fn from(setup: &Setup) -> Self {
        let text = |path: &PathBuf| {
            // The spawner is not where the supervisor was started.
            let absolute = path::absolute(path).unwrap_or_else(|_empty| path.clone());
            absolute.to_string_lossy().into_owned()
        };
        let paths = |list: &[PathBuf]| list.iter().map(text).collect();
        Self {
            tiers: setup.tiers.iter().map(|tier| TierName::from(*tier).into()).collect(),
            first_uid: setup.first_uid,
            uid_count: setup.uid_count,
            shared_uid: setup.shared_uid,
            leases: setup.leases,
            work_dir: text(&setup.work_dir),
            hidden: paths(&setup.hidden),
            programs: paths(&setup.programs),
            accept_no_landlock: setup.accept_no_landlock,
        }
    }
}

impl From<Shortage> for Shortfall {
    fn from(shortage: Shortage) -> Self {
        let (tier, need) = (shortage.tier().into(), shortage.need());
        Self { tier, need, reason: shortage.reason }
    }
}

impl From<Ready> for Abilities {
    fn from(ready: Ready) -> Self {
        Self {
            leases: ready.leases,
            tier: ready.tier().into(),
            landlock: ready.landlock,
            missing: ready.missing,
            root: ready.root.into(),
            unlimited: ready.unlimited,
        }
    }
}
