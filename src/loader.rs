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
    ledger::Problem,
    snapshot::{NoSnapshot, Unreadable},
};
use crate::{
    metrics::{Metrics, Reload},
    plugin::{Catalog, Isolation, Severity},
};

/// How long a directory has to be quiet before it is read: editors and kubelet
/// take several steps, and the first of them is not the one that counts.
const QUIET: Duration = Duration::from_millis(250);

/// How long a directory that is never quiet is left alone.
const RESTLESS: Duration = Duration::from_secs(2);

/// Time between two looks without a hint.
const POLL: Duration = Duration::from_secs(10);

/// Where definitions are.
#[derive(Clone, Debug)]
pub struct Places {
    /// A directory of them. It may be missing if `single` is there.
    pub directory: Option<PathBuf>,
    /// One by itself: where argocd-cmp-server has its only one. If there is a
    /// directory too, this need not be there.
    pub single: Option<PathBuf>,
}

/// Follows the places where definitions are.
#[derive(Debug)]
pub struct Loader {
    places: Places,
    ledger: Ledger,
    metrics: Metrics,
    catalogs: watch::Sender<Catalog>,
    /// What was last told of each problem, so that it is told once.
    told: Vec<String>,
}

impl Loader {
    /// A loader that has read nothing yet, and what it will publish: plugins
    /// that are content with so much isolation.
    #[must_use]
    pub fn new(
        places: Places,
        isolation: Isolation,
        metrics: Metrics,
    ) -> (Self, watch::Receiver<Catalog>) {
        let (catalogs, receiver) = watch::channel(Catalog::default());
        let (ledger, told) = (Ledger::new(isolation), Vec::new());
        (Self { places, ledger, metrics, catalogs, told }, receiver)
    }

    /// Reads the directory once. What cannot be read changes nothing.
    pub fn load(&mut self) -> Result<(), NoSnapshot> {
        let sources = self.places.read();
        let sources = sources.inspect_err(|_| self.metrics.reloaded(Reload::Rejected))?;
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

    fn tell(&mut self, problems: &[Problem]) {
        let warnings = self.ledger.warnings();
        let texts: Vec<_> = problems.iter().chain(warnings).map(ToString::to_string).collect();
        let is_told = |problem: &&Problem| !self.told.contains(&problem.to_string());
        for problem in problems.iter().filter(is_told) {
            let Problem { file, problem, stale, .. } = problem;
            let kept = if *stale { "its last good definition is served" } else { "ignored" };
            error!(file, code = %problem.code, error = %problem, kept, "not a valid plugin");
        }
        for Problem { file, problem, .. } in warnings.iter().filter(is_told) {
            match problem.severity() {
                Severity::Note => info!(file, code = %problem.code, note = %problem, "a plugin"),
                Severity::Warning | Severity::Error => {
                    warn!(file, code = %problem.code, error = %problem, "a doubtful plugin");
                }
            }
        }
        self.told = texts;
    }
}

impl Places {
    fn read(&self) -> Result<Vec<Source>, NoSnapshot> {
        let is_needed = |path: &&PathBuf| self.directory.is_none() || path.exists();
        let single = self.single.as_ref().filter(is_needed);
        let mut sources = match &self.directory {
            Some(directory) if single.is_none() || directory.exists() => snapshot::read(directory)?,
            Some(_) | None => Vec::new(),
        };
        sources.extend(single.map(|path| snapshot::one(path)));
        Ok(sources)
    }

    /// Watches for as long as the watcher lives. Any event is a hint; one that
    /// waits already is enough.
    pub fn watch(&self, hints: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
        let hint = move |_event| {
            // Full means that a hint is waiting.
            let _ = hints.try_send(());
        };
        let mut watcher = notify::recommended_watcher(hint)?;
        let beside = self.single.as_deref().and_then(Path::parent);
        for directory in self.directory.as_deref().into_iter().chain(beside) {
            if directory.exists() {
                watcher.watch(directory, RecursiveMode::NonRecursive)?;
            }
        }
        Ok(watcher)
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
