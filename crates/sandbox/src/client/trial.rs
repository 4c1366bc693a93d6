//! Tests the sandbox at start by attacks that must fail.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{OpenOptionsExt, PermissionsExt},
            net::{self, UnixListener},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::errno::Errno;
use rand::RngExt;
use thiserror::Error;
use tokio::time::timeout;

use super::{
    bounds::Bounds,
    handle::{Unconfined, cannot},
    lease::NoLease,
    link::Link,
    locked::LockedDirectory,
    start::Abilities,
};
use crate::{
    kernel::policy::{covers_ports, covers_signals},
    wire::{
        message::JobKind,
        plan::{Answer, CanaryTask, Task},
        tier::Tier,
    },
};

/// Longest duration of the trial. It usually takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Beginning of the name of the directory with the targets that are files.
const PREFIX: &str = ".canary-";

/// Name of the target that listens.
const SOCKET: &str = "socket";

/// Bytes of the longest path that a trial creates, after the directory of sockets.
pub const TRIAL_PATH: usize = "/0123456/".len() + PREFIX.len() + SOCKET.len();

/// Reasons why the sandbox cannot be trusted.
#[derive(Debug, Error)]
pub enum NotProven {
    /// Attacks succeeded.
    #[error(
        "the sandbox does not hold: a request could {}: this kernel or its security profile does \
         not enforce what it claims to", .0.join(", ")
    )]
    Escaped(Vec<String>),
    /// The directory of sockets cannot hold targets.
    #[error("{path}: cannot create targets of the sandbox trial: {error}", path = path.display())]
    Directory {
        /// The directory of sockets.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The trial could not be prepared.
    #[error("cannot run the sandbox trial: {0}")]
    Io(#[from] io::Error),
    /// There was no lease for the trial.
    #[error("cannot run the sandbox trial: {0}")]
    Lease(#[from] NoLease),
    /// The worker could not be confined.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
    /// The trial took too long.
    #[error("the sandbox trial did not end within {} s", PATIENCE.as_secs())]
    Slow,
}

impl Link {
    /// Runs attacks on the supervisor, the spawner and their files from a
    /// confined worker. Targets are created in `directory`, which requests must
    /// not access.
    pub async fn try_sandbox(
        &self,
        abilities: &Abilities,
        directory: &Path,
    ) -> Result<(), NotProven> {
        if abilities.tier == Tier::None {
            return Ok(());
        }
        let victims = Victims::new(directory)?;
        let task = victims.task(abilities)?;
        let alive =
            timeout(PATIENCE, self.attack(task)).await.map_err(|_elapsed| NotProven::Slow)?;
        let alive = alive?;
        if alive.is_empty() { Ok(()) } else { Err(NotProven::Escaped(alive)) }
    }

    async fn attack(&self, task: CanaryTask) -> Result<Vec<String>, NotProven> {
        let mut lease = self.lease_for(JobKind::Canary, Bounds::default(), None).await?;
        let worker = lease.take_worker();
        let mut worker = worker.ok_or_else(|| cannot("start a worker")("there is none"))?;
        worker.tell(&lease.bounds().plan(Task::Canary(task))).await;
        match worker.reply().await.map_err(cannot("receive a worker's reply"))? {
            Some((Answer::Canaries(canaries), _)) => Ok(canaries.succeeded),
            Some((Answer::Failed(failed), _)) => Err(Unconfined::from(failed).into()),
            Some(_) | None => Err(worker.unexpected_end().await.into()),
        }
    }
}

/// Targets of the attacks.
struct Victims {
    directory: LockedDirectory,
    abstract_name: String,
    /// `None` without a loopback address.
    port: Option<TcpListener>,
    _sockets: [UnixListener; 2],
}

impl Victims {
    fn new(parent: &Path) -> Result<Self, NotProven> {
        let failed = |error| NotProven::Directory { path: parent.to_owned(), error };
        let directory = LockedDirectory::create(parent, PREFIX, 0o755).map_err(failed)?;
        let socket = fill(directory.path()).map_err(failed)?;
        let abstract_name = format!("cmp-supervisor/{:032x}", rand::rng().random::<u128>());
        let name = net::SocketAddr::from_abstract_name(&abstract_name)?;
        let named = UnixListener::bind_addr(&name)?;
        Ok(Self { directory, abstract_name, port: port()?, _sockets: [socket, named] })
    }

    /// Targets that this version of Landlock does not protect, or that do not exist, are left
    /// out.
    fn task(&self, abilities: &Abilities) -> io::Result<CanaryTask> {
        let path = |name| self.directory.path().join(name).to_string_lossy().into_owned();
        let landlock = abilities.landlock;
        let of_files = |name| if landlock > 0 { path(name) } else { String::new() };
        let port = self.port.as_ref().filter(|_| covers_ports(landlock));
        let port = port.map(TcpListener::local_addr).transpose()?;
        Ok(CanaryTask {
            supervisor: std::process::id(),
            root: abilities.root.to_string_lossy().into_owned(),
            secret: path("secret"),
            world: of_files("world"),
            open: of_files("open"),
            socket: path(SOCKET),
            abstract_name: if covers_signals(landlock) {
                self.abstract_name.clone()
            } else {
                String::new()
            },
            port: port.map(|address| address.to_string()).unwrap_or_default(),
        })
    }
}

/// Listens on a loopback address, that of IPv6 if there is none of IPv4.
fn port() -> io::Result<Option<TcpListener>> {
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
    let is_missing = |error: &io::Error| {
        let errno = error.raw_os_error().map(Errno::from_raw);
        matches!(errno, Some(Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT))
    };
    match TcpListener::bind(&addresses[..]) {
        Err(error) if is_missing(&error) => Ok(None),
        bound => bound.map(Some),
    }
}

/// Creates the targets that are files. Returns the one that listens.
fn fill(directory: &Path) -> io::Result<UnixListener> {
    let file = |name, mode| {
        let path = directory.join(name);
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    };
    file("secret", 0o600)?;
    file("world", 0o644)?;
    let open = directory.join("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777))?;
    let path = directory.join(SOCKET);
    let socket = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_with_equal_process_ids_share_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Victims::new(directory.path()).unwrap();
        let second = Victims::new(directory.path()).unwrap();
        let path = |name| first.directory.path().join(name);
        assert!(path("secret").exists(), "the second removed it");
        drop((first, second));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_path_of_a_trial_is_longer_than_its_limit_tells() {
        let parent = tempfile::tempdir().unwrap();
        let victims = Victims::new(parent.path()).unwrap();
        let targets = fs::read_dir(victims.directory.path()).unwrap();
        let lengths = targets.map(|target| target.unwrap().path().as_os_str().len());
        assert_eq!(lengths.max(), Some(parent.path().as_os_str().len() + TRIAL_PATH));
    }

    #[test]
    fn a_trial_that_cannot_be_prepared_leaves_nothing_and_names_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        // The path of the socket is too long.
        let parent = directory.path().join("d".repeat(100));
        fs::create_dir(&parent).unwrap();
        let error = Victims::new(&parent).map(drop).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{}: cannot create targets", parent.display())),
            "{error}"
        );
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }
}
