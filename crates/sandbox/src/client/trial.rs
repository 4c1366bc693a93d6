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
        let mut lease = self.lease_for(JobKind::Canary, Bounds::default()).await?;
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
        let name = format!(".canary-{}", std::process::id());
        let directory = parent.join(&name);
        // An earlier process with the same ID may have been killed during its
        // trial.
        let _ = fs::remove_dir_all(&directory);
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
        let abstract_name = format!("cmp-supervisor/{name}");
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

impl Drop for Victims {
    fn drop(&mut self) {
        // If this fails, the next start removes it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
