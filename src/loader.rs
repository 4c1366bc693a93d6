//! Reading the plugins directory, now and whenever it changes.
//!
//! Whatever the file system reports is only taken as a hint to look again, and
//! it is looked at from time to time without any hint: watches get lost.

mod ledger;
mod snapshot;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::{ledger::Ledger, snapshot::Source};
pub use self::{
    ledger::{Fault, Problem},
    snapshot::{NoSnapshot, Unreadable},
};
use crate::{
    metrics::{Metrics, Reload},
    plugin::Catalog,
};

/// How long a directory has to be quiet before it is read: editors and kubelet
/// take several steps, and the first of them is not the one that counts.
const QUIET: Duration = Duration::from_millis(250);

/// How long a directory that is never quiet is left alone.
const RESTLESS: Duration = Duration::from_secs(2);

/// Time between two looks without a hint.
const POLL: Duration = Duration::from_secs(10);

/// Follows a plugins directory.
#[derive(Debug)]
pub struct Loader {
    directory: PathBuf,
    /// A definition outside the directory: where argocd-cmp-server has its own.
    single: Option<PathBuf>,
    ledger: Ledger,
    metrics: Metrics,
    catalogs: watch::Sender<Catalog>,
    /// What was last told of each problem, so that it is told once.
    told: Vec<String>,
}

impl Loader {
    /// A loader that has read nothing yet, and what it will publish.
    #[must_use]
    pub fn new(
        directory: PathBuf,
        single: Option<PathBuf>,
        metrics: Metrics,
    ) -> (Self, watch::Receiver<Catalog>) {
        let (catalogs, receiver) = watch::channel(Catalog::default());
        let (ledger, told) = (Ledger::default(), Vec::new());
        (Self { directory, single, ledger, metrics, catalogs, told }, receiver)
    }

    /// Reads the directory once. What cannot be read changes nothing.
    pub fn load(&mut self) -> Result<(), NoSnapshot> {
        let sources = self.sources().inspect_err(|_| self.metrics.reloaded(Reload::Rejected))?;
        let served = self.catalogs.borrow().clone();
        let (catalog, problems) = self.ledger.update(sources, &served);
        self.tell(&problems);
        let changed = catalog != served;
        self.metrics.reloaded(match (problems.is_empty(), changed) {
            (false, _) => Reload::Partial,
            (true, true) => Reload::Applied,
            (true, false) => Reload::Unchanged,
        });
        if changed {
            info!(plugins = catalog.len(), "definitions changed");
            self.catalogs.send_replace(catalog);
        }
        Ok(())
    }

    /// Follows the directory until `stop`.
    pub async fn run(mut self, mut hints: mpsc::Receiver<()>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(POLL) => {}
                Some(()) = hints.recv() => settle(&mut hints).await,
            }
            if let Err(error) = self.load() {
                warn!(%error, "keeping the definitions there are");
            }
        }
    }

    fn sources(&self) -> Result<Vec<Source>, NoSnapshot> {
        let mut sources = snapshot::read(&self.directory)?;
        if let Some(single) = self.single.as_deref().filter(|path| path.exists()) {
            sources.push(snapshot::one(single));
        }
        Ok(sources)
    }

    fn tell(&mut self, problems: &[Problem]) {
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        for (problem, text) in problems.iter().zip(&texts) {
            if self.told.contains(text) {
                continue;
            }
            let kept = if problem.stale { "its last good definition is served" } else { "ignored" };
            error!(file = %problem.file, error = %problem.problem, kept, "not a valid plugin");
        }
        self.told = texts;
    }
}

/// Waits until there was no hint for a while.
async fn settle(hints: &mut mpsc::Receiver<()>) {
    let latest = Instant::now() + RESTLESS;
    loop {
        let quiet = (Instant::now() + QUIET).min(latest);
        tokio::select! {
            () = sleep_until(quiet) => return,
            hint = hints.recv() => if hint.is_none() { return },
        }
    }
}

/// Watches a directory for as long as the watcher lives. Any event is a hint;
/// one that waits already is enough.
pub fn watch_directory(
    directory: &Path,
    hints: mpsc::Sender<()>,
) -> notify::Result<RecommendedWatcher> {
    let hint = move |_event| {
        // Full means that a hint is waiting.
        let _ = hints.try_send(());
    };
    let mut watcher = notify::recommended_watcher(hint)?;
    watcher.watch(directory, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
