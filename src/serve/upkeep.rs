//! Keeps the directories of the supervisor usable, and watches the work volume.
//!
//! Requests can close these directories, as `access` explains. A person or a program
//! may also remove one.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use cmp_archive::UnpackLimits;
use cmp_sandbox::{Bounds, Link, NotUnpacked, Unpack};
use tokio::{
    sync::watch::Sender,
    time::{interval, timeout},
};
use tracing::warn;

use crate::{
    metrics::{Metrics, VolumeSpace},
    own_directory::restore,
    state::{Component, Condition, State, report},
    volume::{FileThread, Space, WorkVolume},
};

/// Pause between two checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Longest attempt to create a workspace.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Mode of a directory of ours that lost all its rights: tenants may enter
/// and not list it. The spawner corrects that of the directory of workspaces before each worker.
const MODE: u32 = 0o711;

/// Directories on the same storage, for the same use.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    pub(super) paths: Vec<PathBuf>,
    /// The rights without which the supervisor cannot use them.
    pub(super) needed: u32,
}

impl Directories {
    /// Gives access back to directories that lost it. Missing ones are left to
    /// those who need them.
    pub(super) fn restore(&self) {
        for directory in &self.paths {
            if let Ok(true) = restore(directory, self.needed, MODE) {
                warn!(path = %directory.display(), "restored access to a directory that another process had closed");
            }
        }
    }
}

/// Restores directories on a thread of its own, because their storage may not answer.
#[derive(Debug)]
struct Restorer {
    directories: Directories,
    files: FileThread,
    is_silent: bool,
}

impl Restorer {
    fn new(directories: Directories) -> Self {
        Self { directories, files: FileThread::new(), is_silent: false }
    }

    async fn restore(&mut self) {
        let directories = self.directories.clone();
        let restored = self.files.run(move || directories.restore()).await;
        if let Err(error) = &restored
            && !self.is_silent
        {
            let paths = &self.directories.paths;
            warn!(?paths, %error, "cannot look after directories of the supervisor");
        }
        self.is_silent = restored.is_err();
    }
}

/// The parts that upkeep looks after.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// The work directory and the directories in it.
    pub(super) work: Directories,
    /// Definitions.
    pub(super) plugins: Directories,
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
        tokio::join!(self.look_after_work(), self.look_after_plugins());
    }

    async fn look_after_work(&self) {
        let (mut ticks, mut restorer) = (interval(INTERVAL), Restorer::new(self.work.clone()));
        loop {
            ticks.tick().await;
            restorer.restore().await;
            let condition = self.condition().await;
            report(&self.states, Component::WorkVolume, condition);
        }
    }

    async fn look_after_plugins(&self) {
        let (mut ticks, mut restorer) = (interval(INTERVAL), Restorer::new(self.plugins.clone()));
        loop {
            ticks.tick().await;
            restorer.restore().await;
        }
    }

    async fn condition(&self) -> Condition {
        if let Err(reason) = self.have_workspaces().await {
            return Condition::Bad(reason);
        }
        match self.volume.space().await {
            Ok(space) => {
                self.metrics.work_volume(VolumeSpace {
                    free_bytes: space.free_bytes,
                    size_bytes: space.bytes,
                    free_inodes: space.free_inodes,
                });
                of_space(space, self.volume.path())
            }
            Err(error) => Condition::Bad(self.unanswered(&error)),
        }
    }

    /// Makes sure that the directory of workspaces is at its path. Only a request creates a
    /// missing one again, and Kubernetes sends none to a supervisor that is not ready.
    async fn have_workspaces(&self) -> Result<(), String> {
        if self.finds_workspaces().await? {
            return Ok(());
        }
        self.try_workspace().await?;
        if self.finds_workspaces().await? {
            return Ok(());
        }
        // The spawner still has it open, and does not replace it.
        Err(format!(
            "{} was moved, or a volume was mounted over it: undo this, or restart the container",
            self.workspaces.display()
        ))
    }

    async fn finds_workspaces(&self) -> Result<bool, String> {
        let workspaces = self.workspaces.clone();
        let is_there = self.volume.ask(move || workspaces.is_dir()).await;
        is_there.map_err(|error| self.unanswered(&error))
    }

    fn unanswered(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.volume.path().display())
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

/// The condition of a volume, with its numbers or the remedy.
fn of_space(space: Space, path: &Path) -> Condition {
    let path = path.display();
    if let Some(reason) = space.closed() {
        return Condition::Bad(format!("{path} {reason}"));
    }
    let numbers = format!("{path}: {}", space.say());
    match space.low() {
        None => Condition::Good(numbers),
        Some(low) => Condition::Strained(format!("{numbers}; requests wait because {low}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::SPACE;

    #[test]
    fn a_read_only_volume_fails_its_check_and_a_full_one_does_not() {
        let condition = |space| of_space(space, Path::new("/work"));
        let numbers = "/work: 64 MiB of 1024 MiB free, 5000 of 10000 inodes free";
        assert_eq!(condition(SPACE), Condition::Good(numbers.to_owned()));
        let Condition::Bad(reason) = condition(Space { is_read_only: true, ..SPACE }) else {
            panic!("requests would come and fail");
        };
        assert!(reason.starts_with("/work is read-only: mount a volume there with"), "{reason}");
        let Condition::Strained(reason) = condition(Space { free_bytes: 0, ..SPACE }) else {
            panic!("one plugin could stop the whole repo-server");
        };
        assert!(reason.ends_with("; requests wait because less than 32 MiB are free"), "{reason}");
    }
}
