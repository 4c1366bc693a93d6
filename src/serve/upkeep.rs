//! Keeps the directories of the supervisor usable, and watches the work volume.
//!
//! Requests can close these directories, as `access` explains. A person or a program
//! may also remove one.

use std::{io, path::PathBuf, time::Duration};

use cmp_archive::UnpackLimits;
use cmp_sandbox::{Bounds, Link, NotUnpacked, Unpack};
use tokio::{
    sync::watch::Sender,
    time::{interval, timeout},
};
use tracing::warn;

use crate::{
    access::restore,
    metrics::{Metrics, VolumeSpace},
    state::{Component, Condition, State, report},
    volume::{FileThread, WorkVolume},
};

/// Pause between two checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Longest attempt to create a workspace.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Mode of a directory of ours that lost all its rights: tenants may enter
/// and not list it. The spawner corrects that of the directory of workspaces before each worker.
const MODE: u32 = 0o711;

/// The directories of a supervisor.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    /// Definitions.
    pub(super) plugins: PathBuf,
    /// The work directory and the directories in it.
    pub(super) work: Vec<PathBuf>,
}

impl Directories {
    /// Gives access back to directories that lost it. Missing ones are left to
    /// those who need them.
    pub(super) fn restore(&self) {
        for directory in self.work.iter().chain([&self.plugins]) {
            if let Ok(true) = restore(directory, MODE) {
                warn!(path = %directory.display(), "restored access to a directory that another process had closed");
            }
        }
    }
}

/// The parts that upkeep looks after.
#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) directories: Directories,
    /// Directory of workspaces.
    pub(super) workspaces: PathBuf,
    pub(super) volume: WorkVolume,
    pub(super) link: Link,
    pub(super) states: Sender<State>,
    pub(super) metrics: Metrics,
}

impl Upkeep {
    /// Checks at intervals until the runtime ends.
    pub(super) async fn run(self) {
        let mut ticks = interval(INTERVAL);
        let (files, mut is_silent) = (FileThread::new(), false);
        loop {
            ticks.tick().await;
            let directories = self.directories.clone();
            let restored = files.run(move || directories.restore()).await;
            if let Err(error) = &restored
                && !is_silent
            {
                warn!(%error, "cannot look after the directories of the supervisor");
            }
            is_silent = restored.is_err();
            let condition = self.condition().await;
            report(&self.states, Component::WorkVolume, condition);
        }
    }

    async fn condition(&self) -> Condition {
        // Only a request creates a missing directory again, and Kubernetes sends
        // none to a supervisor that is not ready.
        let workspaces = self.workspaces.clone();
        let is_there = match self.volume.ask(move || workspaces.is_dir()).await {
            Ok(is_there) => is_there,
            Err(error) => return self.bad(&error),
        };
        if !is_there && let Err(reason) = self.try_workspace().await {
            return Condition::Bad(reason);
        }
        match self.volume.space().await {
            Ok(space) => {
                self.metrics.work_volume(VolumeSpace {
                    free_bytes: space.free_bytes,
                    size_bytes: space.bytes,
                    free_inodes: space.free_inodes,
                });
                Condition::Good(space.describe(self.volume.path()))
            }
            Err(error) => self.bad(&error),
        }
    }

    fn bad(&self, error: &io::Error) -> Condition {
        Condition::Bad(format!("{}: {error}", self.volume.path().display()))
    }

    /// Creates a workspace and removes it.
    async fn try_workspace(&self) -> Result<(), String> {
        let attempt = async {
            let mut lease =
                self.link.lease(Bounds::default(), None).await.map_err(|e| e.to_string())?;
            let nothing = UnpackLimits { bytes: 0, files: 0, is_volume: false };
            let unpacking = lease.unpack(Unpack::all(nothing)).await.map_err(|e| e.to_string())?;
            match unpacking.finish().await {
                // Nothing was sent, which is no archive.
                Ok(_) | Err(NotUnpacked::Refused(_)) => Ok(()),
                Err(
                    error @ (NotUnpacked::AlmostFull(_)
                    | NotUnpacked::Killed(_)
                    | NotUnpacked::Unconfined(_)),
                ) => Err(error.to_string()),
            }
        };
        let made = timeout(ATTEMPT, attempt).await;
        made.unwrap_or_else(|_elapsed| Err("creating a workspace takes too long".to_owned()))
    }
}
