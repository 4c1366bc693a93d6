//! Starting the spawner, before there is anything it must not inherit.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    channel, message,
    message::{Event, Order, Report, What},
    spawner,
};

/// Whom workers run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Every request has a user that no other live request has.
    Distinct,
    /// Every request runs as the same user.
    Shared,
}

/// What the spawner has to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whom workers run as.
    pub identities: Identities,
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
}

/// A spawner that is ready for orders. It ends when this is dropped.
#[derive(Debug)]
pub struct Spawner {
    pub(super) control: OwnedFd,
    pub(super) leases: u32,
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
    #[error("{0}")]
    Unfit(String),
}

/// The first argument that makes this program a spawner.
pub const SPAWNER: &str = "spawner";

impl Spawner {
    /// Starts this program again as a spawner and waits until it is ready.
    ///
    /// To be called before any thread is started or privilege given up.
    pub fn start(setup: &Setup) -> Result<(Self, Process), NotStarted> {
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
        let order = Order { what: Some(What::Setup(setup.into())) };
        channel::send(&control, &order, &[]).map_err(NotStarted::Start)?;
        let leases = ready(&control)?;
        Ok((Self { control, leases }, Process(process)))
    }

    /// How many requests there can be at a time.
    #[must_use]
    pub fn leases(&self) -> u32 {
        self.leases
    }
}

/// The spawner's process.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
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

fn ready(control: &OwnedFd) -> Result<u32, NotStarted> {
    let received = channel::receive::<Report>(control).map_err(NotStarted::Silent)?;
    match received.and_then(|(report, _)| report.event) {
        Some(Event::Ready(ready)) => Ok(ready.leases),
        Some(Event::Unfit(why)) => Err(NotStarted::Unfit(why)),
        Some(Event::Leased(_) | Event::Ended(_) | Event::Released(_)) | None => {
            Err(NotStarted::Silent(io::ErrorKind::UnexpectedEof.into()))
        }
    }
}

/// Is the spawner, when this program was started as one: see [`Spawner::start`].
pub fn spawner_main() -> io::Result<()> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    nix::unistd::dup2_stdin(nothing)?;
    spawner::run(control)
}

impl From<&Setup> for message::Setup {
    fn from(setup: &Setup) -> Self {
        let identities = match setup.identities {
            Identities::Distinct => message::Identities::Distinct,
            Identities::Shared => message::Identities::Shared,
        };
        Self {
            identities: identities.into(),
            first_uid: setup.first_uid,
            uid_count: setup.uid_count,
            shared_uid: setup.shared_uid,
            leases: setup.leases,
            work_dir: setup.work_dir.to_string_lossy().into_owned(),
        }
    }
}
