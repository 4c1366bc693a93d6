//! Trying the sandbox before it is relied on.

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

/// How long the trial may take. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Versions of Landlock that cover TCP ports, and abstract sockets.
const COVERS_PORTS: i32 = 4;
const COVERS_ABSTRACT: i32 = 6;

/// Why the sandbox is not to be relied on.
#[derive(Debug, Error)]
pub enum NotProven {
    /// A request could do what none may.
    #[error(
        "the sandbox does not hold: a request could {}; this kernel or its security profile does \
         not enforce what it claims to", .0.join(", ")
    )]
    Escaped(Vec<String>),
    /// It could not be tried.
    #[error("the sandbox could not be tried: {0}")]
    Io(#[from] io::Error),
    /// There was no lease to try it under.
    #[error("the sandbox could not be tried: {0}")]
    Lease(#[from] NoLease),
    /// The sandbox cannot be made.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
    /// It took too long.
    #[error("the sandbox was not tried within {} s", PATIENCE.as_secs())]
    Slow,
}

impl Link {
    /// Has a request attack the supervisor, the spawner and what is theirs.
    /// Victims are put into `directory`, where no request may look.
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
        match worker.reply().await.map_err(cannot("hear from a worker"))? {
            Some((Answer::Canaries(canaries), _)) => Ok(canaries.succeeded),
            Some((Answer::Failed(failed), _)) => Err(Unconfined::from(failed).into()),
            Some(_) | None => Err(worker.unexpected_end().await.into()),
        }
    }
}

/// What is attacked. All of it goes when this is dropped.
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
        // Left behind by a predecessor that was killed.
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

    /// What the kernel does not claim to protect is left out.
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
        // Removed at the next start, if not now.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
