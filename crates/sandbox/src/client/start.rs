//! Starts the spawner, before the supervisor has anything that must not be
//! inherited.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{self, Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use prost::Message;
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    kernel::no_process::with_remedy,
    wire::{
        channel,
        message::{self, HomePartOrder, Order, OrderKind, Ready, SpawnerEvent, SpawnerReport},
        shortage::{Need, Shortage, Unfitness},
        skeleton::{HomePart, Skeleton},
        tier::{Demand, Tier},
        transient::persist,
    },
};

/// Configuration of the spawner.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Tiers in order of preference. The first one that is fully available is
    /// used.
    pub tiers: Vec<Tier>,
    /// First UID to lease.
    pub first_uid: u32,
    /// Number of UIDs to lease.
    pub uid_count: u32,
    /// UID of all workers in a tier without separate UIDs, if started as root.
    pub shared_uid: u32,
    /// Most leases at one time.
    pub leases: u32,
    /// Directory in which the directory of workspaces is created.
    pub work_dir: PathBuf,
    /// Paths that no request may access, even if something else allows it.
    pub hidden: Vec<PathBuf>,
    /// Directories of secrets. A request reads a file in them only if its
    /// [`Bounds`](crate::Bounds) name the file.
    pub secret: Vec<PathBuf>,
    /// Files in the paths above that every request may read. One that is missing
    /// is left out.
    pub shown: Vec<PathBuf>,
    /// Directories of plugin definitions. Every request may read the files in
    /// them that are no definitions: scripts.
    pub scripts: Vec<PathBuf>,
    /// Files of the image for the HOME of each request.
    pub skeleton: Skeleton,
    /// Directories of programs. Every request may read them.
    pub programs: Vec<PathBuf>,
    /// Accept separate UIDs as the only isolation if the kernel has no
    /// Landlock.
    pub accept_no_landlock: bool,
    /// Demand for a cgroup for each request.
    pub request_cgroups: Demand,
    /// Report accesses that the kernel refuses to commands, which slows them down.
    pub observes: bool,
    /// Further arguments of the process. The sandbox does not read them; the program that is
    /// started again can.
    pub arguments: Vec<&'static str>,
}

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
    /// The paths of its configuration do not fit into a message.
    #[error(
        "cannot start the spawner: its paths take {bytes} bytes and may take {}; {programs} of them are \
         of the directories in PATH: shorten PATH, or name fewer paths in --read",
        channel::MAX_MESSAGE
    )]
    Long {
        /// Bytes of the message.
        bytes: usize,
        /// Bytes of the directories of programs.
        programs: usize,
    },
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
            .map_err(NotStarted::Start)?;
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

/// The order with a configuration, if it fits into a message.
fn order(setup: &Setup) -> Result<Order, NotStarted> {
    let setup = message::SetupOrder::from(setup);
    let programs = setup.programs.iter().map(String::len).sum();
    let order = Order::from(OrderKind::Setup(setup));
    if channel::fits(&order) {
        return Ok(order);
    }
    Err(NotStarted::Long { bytes: order.encoded_len(), programs })
}

/// The directories that exist, each once: the PATH of some images has hundreds of others.
fn present(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let is_new = |path: &&PathBuf| path.is_dir() && seen.insert((*path).clone());
    directories.iter().filter(is_new).cloned().collect()
}

impl From<&Setup> for message::SetupOrder {
    fn from(setup: &Setup) -> Self {
        let text = |path: &PathBuf| {
            // The spawner runs in another directory.
            let absolute = path::absolute(path).unwrap_or_else(|_empty| path.clone());
            absolute.to_string_lossy().into_owned()
        };
        let paths = |list: &[PathBuf]| list.iter().map(text).collect();
        Self {
            tiers: setup.tiers.iter().map(|tier| (*tier).into()).collect(),
            first_uid: setup.first_uid,
            uid_count: setup.uid_count,
            shared_uid: setup.shared_uid,
            leases: setup.leases,
            work_dir: text(&setup.work_dir),
            hidden: paths(&setup.hidden),
            secret: paths(&setup.secret),
            shown: paths(&setup.shown),
            scripts: paths(&setup.scripts),
            homes: paths(&setup.skeleton.homes),
            home_parts: setup.skeleton.parts.iter().map(HomePartOrder::from).collect(),
            programs: paths(&present(&setup.programs)),
            accept_no_landlock: setup.accept_no_landlock,
            request_cgroups: setup.request_cgroups.into(),
            observes: setup.observes,
        }
    }
}

impl From<&HomePart> for HomePartOrder {
    fn from(part: &HomePart) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (source, target) = (text(&part.source), text(&part.target));
        Self { source, target, depth: part.depth, opens: part.opens }
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(programs: Vec<PathBuf>) -> Setup {
        Setup {
            tiers: Vec::new(),
            first_uid: 0,
            uid_count: 0,
            shared_uid: 0,
            leases: 0,
            work_dir: "/".into(),
            hidden: Vec::new(),
            secret: Vec::new(),
            shown: Vec::new(),
            scripts: Vec::new(),
            skeleton: Skeleton::default(),
            programs,
            accept_no_landlock: false,
            request_cgroups: Demand::Off,
            observes: false,
            arguments: Vec::new(),
        }
    }

    #[test]
    fn directories_of_path_that_do_not_exist_or_come_again_take_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let missing = (0..1000).map(|number| directory.path().join(number.to_string()));
        let repeated = std::iter::repeat_n(directory.path().to_owned(), 1000);
        let sent = order(&setup(repeated.chain(missing).collect())).unwrap();
        let Some(OrderKind::Setup(sent)) = sent.what else { panic!("another order: {sent:?}") };
        assert_eq!(sent.programs, [directory.path().display().to_string()]);
    }

    #[test]
    fn a_path_that_is_too_long_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let made = |number| {
            let path = directory.path().join(format!("{number:0100}"));
            std::fs::create_dir(&path).map(|()| path)
        };
        let programs = (0..200).map(made).collect::<Result<_, _>>().unwrap();
        let error = order(&setup(programs)).unwrap_err().to_string();
        let part = "bytes and may take 16384; 2";
        assert!(error.contains(part) && error.contains("shorten PATH"), "{error}");
    }
}
