//! Removes leftovers of earlier starts from the directory of workspaces, and those of private
//! supervisors from the work directory.

use std::{
    fs::{self, Metadata},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
    time::{Duration, Instant},
};

use nix::unistd::{Uid, geteuid};

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        abandoned,
        backoff::Backoff,
        duty::Duty,
        end_duty::{Ending, Owner},
        end_report::EnderSocket,
        leftovers,
        not_prepared::NotPrepared,
        release::Remaining,
        reserve::Ordered,
        root::{NoWorkspaceRoot, WORKSPACES},
        setup::Prepared,
        turns::Ended,
    },
    wire::message::SpawnerEvent,
};

/// Pauses between two attempts to remove a directory.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(1));

/// Most directories that are removed at a time.
const MOST: usize = 4;

/// Failures before a directory is reported.
const REPORTED: u32 = 2;

/// A directory that an earlier spawner left behind.
#[derive(Debug)]
pub(super) struct StaleDirectory {
    /// Path from the directory of workspaces.
    name: String,
    /// Its owner, if that is not this process.
    owner: Option<Uid>,
    state: StaleState,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StaleState {
    /// Until the directories in it are removed, which belong to other UIDs.
    Enclosing,
    /// Until the next attempt.
    Waiting(Instant),
    Removing,
    Removed,
}

impl Leases {
    /// Kills leftover processes and removes leftover files, including those of
    /// argocd-cmp-server. Processes that run as the owners remove directories,
    /// because nobody else can; they run in the background.
    pub(in crate::spawner) fn remove_stale(&mut self) -> Result<(), NotPrepared> {
        let Prepared { root, uids, .. } = &mut self.prepared;
        let failed = |error: io::Error| {
            if error.kind() == io::ErrorKind::PermissionDenied {
                // A directory above it may be closed to this UID.
                let path = root.path.clone();
                return NoWorkspaceRoot::Io { path, error }.into();
            }
            NotPrepared::Step { step: "clear the work directory", error }
        };
        for entry in fs::read_dir(&root.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let about = entry.metadata().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if about.is_dir() {
                self.stale.push(StaleDirectory::new(name, &about));
            } else if fs::remove_file(entry.path()).is_err() {
                self.reports.push(SpawnerEvent::Left(name));
            }
        }
        if let Some(work_dir) = root.path.parent() {
            self.stale.extend(of_private_supervisors(work_dir));
        }
        if let Some(uids) = uids {
            leftovers::end(self.fork, uids, self.stale.iter().filter_map(|stale| stale.owner));
        }
        self.free_enclosing();
        self.retry_stale(Instant::now());
        Ok(())
    }

    /// Time of the next attempt to remove a directory; `None` while enough
    /// others are being removed.
    pub(super) fn stale_due(&self) -> Option<Instant> {
        let due = |stale: &StaleDirectory| match stale.state {
            StaleState::Waiting(until) => Some(until),
            StaleState::Enclosing | StaleState::Removing | StaleState::Removed => None,
        };
        let due = self.stale.iter().filter_map(due).min();
        due.filter(|_| self.stale_removals() < MOST)
    }

    /// Starts to remove the directories that are due.
    pub(super) fn retry_stale(&mut self, now: Instant) {
        while let Some(due) = self.stale_due().filter(|due| *due <= now) {
            let is_next = |stale: &StaleDirectory| stale.state == StaleState::Waiting(due);
            let Some(index) = self.stale.iter().position(is_next) else { return };
            self.remove_one(index, now);
        }
    }

    fn remove_one(&mut self, index: usize, now: Instant) {
        let ended = Ended::Stale(index);
        let Some(stale) = self.stale.get_mut(index) else { return };
        let duty = Duty::end(Ending {
            owner: stale.owner.map_or(Owner::Spawner, Owner::Former),
            workspace: &stale.name,
            has_turn: self.turns.take(ended),
            process_check: self.prepared.process_check,
            caches: None,
        });
        let root = self.prepared.root.directory.as_fd();
        let ordered = self.reserve.spare(&duty, root, self.prepared.kit(self.fork));
        if let Ok(Ordered { pid, socket }) = ordered {
            stale.state = StaleState::Removing;
            self.children.insert(
                pid,
                ChildRole::Ender { ended, socket: EnderSocket::new(socket), left: None },
            );
        } else {
            self.turns.end(ended);
            stale.postpone(now);
        }
    }

    /// Handles the end of a process that removed a directory.
    pub(super) fn stale_ended(&mut self, index: usize, found: Remaining, now: Instant) {
        let Some(name) = self.stale.get(index).map(|stale| stale.name.clone()) else { return };
        let is_removed = found == Remaining::Nothing && self.remove_directory(&name).is_ok();
        let Some(stale) = self.stale.get_mut(index) else { return };
        if is_removed {
            stale.state = StaleState::Removed;
            return self.free_enclosing();
        }
        // A request that has the owner's UID now may be the only reason.
        if stale.failures == REPORTED {
            self.reports.push(SpawnerEvent::Left(name));
        }
        stale.postpone(now);
    }

    /// Lets directories be removed that enclose no other one any more.
    fn free_enclosing(&mut self) {
        let is_free = |stale: &StaleDirectory| {
            stale.state == StaleState::Enclosing
                && !self.stale.iter().any(|other| stale.encloses(other))
        };
        let free: Vec<_> = self.stale.iter().map(is_free).collect();
        for (stale, _) in self.stale.iter_mut().zip(free).filter(|(_, is_free)| *is_free) {
            stale.state = StaleState::Waiting(Instant::now());
        }
    }

    fn stale_removals(&self) -> usize {
        self.stale.iter().filter(|stale| stale.state == StaleState::Removing).count()
    }
}

/// The directories that private supervisors left, and the workspaces in them.
fn of_private_supervisors(work_dir: &Path) -> Vec<StaleDirectory> {
    let mut all = Vec::new();
    for name in abandoned::find(work_dir) {
        let workspaces = work_dir.join(&name).join(WORKSPACES);
        for entry in fs::read_dir(workspaces).into_iter().flatten().flatten() {
            let inner = entry.file_name().to_string_lossy().into_owned();
            // Files are removed with the directory around them.
            if let Some(about) = entry.metadata().ok().filter(Metadata::is_dir) {
                all.push(StaleDirectory::new(format!("../{name}/{WORKSPACES}/{inner}"), &about));
            }
        }
        let (owner, state) = (None, StaleState::Enclosing);
        all.push(StaleDirectory { name: format!("../{name}"), owner, state, failures: 0 });
    }
    all
}

impl StaleDirectory {
    fn new(name: String, about: &Metadata) -> Self {
        let owner = Uid::from_raw(about.uid());
        let owner = (owner != geteuid()).then_some(owner);
        Self { name, owner, state: StaleState::Waiting(Instant::now()), failures: 0 }
    }

    /// Returns true if the other directory is in this one and not removed.
    fn encloses(&self, other: &Self) -> bool {
        let is_inside = other.name != self.name && Path::new(&other.name).starts_with(&self.name);
        is_inside && other.state != StaleState::Removed
    }

    fn postpone(&mut self, now: Instant) {
        self.state = StaleState::Waiting(now + AGAIN.pause(self.failures));
        self.failures = self.failures.saturating_add(1);
    }
}
