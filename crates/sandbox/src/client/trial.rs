//! Tests the sandbox at start by attacks that must fail.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rand::RngExt;
use thiserror::Error;
use tokio::time::timeout;

use super::{
    bounds::Bounds,
    handle::{Unconfined, cannot},
    lease::NoLease,
    link::Link,
    start::Abilities,
};
use crate::wire::{
    message::JobKind,
    plan::{Answer, CanaryTask, Task},
    tier::Tier,
};

/// Longest duration of the trial. It usually takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Beginning of the names of targets in the directory of sockets. Seven
/// characters follow: the paths of sockets have a limit.
const PREFIX: &str = ".canary-";

/// Targets of this age do not belong to a trial that is still running.
const ABANDONED: Duration = Duration::from_mins(1);

/// First versions of Landlock that cover TCP ports and abstract sockets.
const COVERS_PORTS: i32 = 4;
const COVERS_ABSTRACT: i32 = 6;

/// Reasons why the sandbox cannot be trusted.
#[derive(Debug, Error)]
pub enum NotProven {
    /// Attacks succeeded.
    #[error(
        "the sandbox does not hold: a request could {}: this kernel or its security profile does \
         not enforce what it claims to", .0.join(", ")
    )]
    Escaped(Vec<String>),
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

/// Targets of the attacks. Dropping this removes them.
struct Victims {
    directory: PathBuf,
    abstract_name: String,
    port: std::net::TcpListener,
    _sockets: [UnixListener; 2],
}

impl Victims {
    fn new(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        // Random: several supervisors may share the directory and the network,
        // and have the same process ID in containers of their own.
        let name = format!("{PREFIX}{:07x}", rand::rng().random_range(0..1_u32 << 28));
        let directory = parent.join(&name);
        fs::DirBuilder::new().mode(0o755).create(&directory)?;
        let file = |name, mode| {
            let path = directory.join(name);
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
        };
        file("secret", 0o600)?;
        file("world", 0o644)?;
        let open = directory.join("open");
        fs::create_dir(&open)?;
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777))?;
        let path = directory.join("socket");
        let socket = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660))?;
        let abstract_name = format!("cmp-supervisor/{:032x}", rand::rng().random::<u128>());
        let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?;
        Ok(Self { directory, abstract_name, port, _sockets: [socket, named] })
    }

    /// Targets that this version of Landlock does not protect are left out.
    fn task(&self, abilities: &Abilities) -> io::Result<CanaryTask> {
        let path = |name| self.directory.join(name).to_string_lossy().into_owned();
        let covers = |version| abilities.landlock >= version;
        let port = u32::from(self.port.local_addr()?.port());
        Ok(CanaryTask {
            supervisor: std::process::id(),
            root: abilities.root.to_string_lossy().into_owned(),
            secret: path("secret"),
            world: if covers(1) { path("world") } else { String::new() },
            open: if covers(1) { path("open") } else { String::new() },
            socket: path("socket"),
            abstract_name: if covers(COVERS_ABSTRACT) {
                self.abstract_name.clone()
            } else {
                String::new()
            },
            port: if covers(COVERS_PORTS) { port } else { 0 },
        })
    }
}

/// Removes targets of supervisors that were killed during their trial. Errors
/// are ignored, because the names cannot collide.
fn remove_abandoned(parent: &Path) {
    let is_old = |entry: &fs::DirEntry| {
        let modified = entry.metadata().and_then(|about| about.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_old(&entry) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        // If this fails, a later start removes it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_with_equal_process_ids_share_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Victims::new(directory.path()).unwrap();
        let second = Victims::new(directory.path()).unwrap();
        assert!(first.directory.join("secret").exists(), "the second removed it");
        drop((first, second));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn targets_of_a_killed_supervisor_are_removed_later() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(".canary-1");
        fs::create_dir(&left).unwrap();
        let age = |age| {
            let then = std::time::SystemTime::now() - age;
            fs::File::open(&left).unwrap().set_modified(then).unwrap();
        };
        age(ABANDONED / 2);
        remove_abandoned(directory.path());
        assert!(left.exists(), "its trial may be running");
        age(ABANDONED * 2);
        remove_abandoned(directory.path());
        assert!(!left.exists());
    }
}
