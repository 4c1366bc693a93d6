//! Reading the plugins' definitions, now and whenever they change.
//!
//! Whatever the file system reports is only taken as a hint to look again, and
//! it is looked at from time to time without any hint: watches get lost.

mod findings;
mod follow;
mod grace;
mod history;
mod ignored;
mod ledger;
mod mount;
mod places;
mod snapshot;
mod source;
mod stamp;
mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch::{Receiver, Sender, channel};
use tracing::{error, info, warn};

use self::{
    findings::Found,
    grace::{Grace, Verdict},
    history::{Digests, History, digests},
    places::Reader,
};
pub use self::{
    findings::{Digest, Findings, Kept, Origin, Trouble},
    follow::Prompt,
    ledger::Problem,
    mount::{StaticMount, static_mounts},
    places::Places,
    snapshot::{NoSnapshot, Unreadable},
};
pub(crate) use self::{
    ignored::Ignored,
    ledger::Ledger,
    snapshot::{Snapshot, Source},
};
use crate::{
    metrics::{Metrics, Reload},
    plugin::{Catalog, Isolation, Severity},
};

/// Follows the places where definitions are.
#[derive(Debug)]
pub struct Loader {
    reader: Reader,
    grace: Grace,
    ledger: Ledger,
    history: History,
    metrics: Metrics,
    catalogs: Sender<Catalog>,
    findings: Sender<Findings>,
    /// What was read at the last look, unless it failed.
    last: Option<(Digests, Vec<Ignored>)>,
    /// Whether changes are heard of at once.
    watching: bool,
    /// What was last told of each problem, so that it is told once.
    told: Vec<String>,
}

/// What a loader publishes.
#[derive(Clone, Debug)]
pub struct Published {
    /// The definitions that should be served.
    pub catalogs: Receiver<Catalog>,
    /// How that came about.
    pub findings: Receiver<Findings>,
}

/// The definitions that a supervisor would serve whatever isolation it had,
/// and everything there is to say of the places they are in.
pub(crate) fn read_once(places: Places) -> Result<(Catalog, Vec<Problem>), NoSnapshot> {
    let snapshot = Reader::new(places).read()?;
    let notes = notes(&snapshot.ignored);
    let mut ledger = Ledger::new(Isolation::Namespaces);
    let (catalog, mut problems) = ledger.update(snapshot.files);
    problems.extend(ledger.warnings().iter().cloned().chain(notes));
    Ok((catalog, problems))
}

fn notes(ignored: &[Ignored]) -> Vec<Problem> {
    let note = |entry: &Ignored| Problem::of_file(&entry.name, entry.diagnostic());
    ignored.iter().map(note).collect()
}

impl Loader {
    /// A loader that has read nothing yet, and what it will publish: plugins that
    /// are content with so much isolation. For as long as `grace`, a directory
    /// without any definition is not believed.
    #[must_use]
    pub fn new(
        places: Places,
        isolation: Isolation,
        grace: Duration,
        metrics: Metrics,
    ) -> (Self, Published) {
        let (catalogs, catalogs_receiver) = channel(Catalog::default());
        let (findings, findings_receiver) = channel(Findings::default());
        let loader = Self {
            reader: Reader::new(places),
            grace: Grace::new(grace),
            ledger: Ledger::new(isolation),
            history: History::default(),
            metrics,
            catalogs,
            findings,
            last: None,
            watching: false,
            told: Vec::new(),
        };
        (loader, Published { catalogs: catalogs_receiver, findings: findings_receiver })
    }

    /// Looks once. What cannot be read changes nothing, and is told.
    pub fn load(&mut self) -> Result<Findings, NoSnapshot> {
        let snapshot = match self.reader.read() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.keep(error.to_string(), None);
                return Err(error);
            }
        };
        let is_emptied = snapshot.files.is_empty() && !self.catalogs.borrow().is_empty();
        if let Verdict::Wait(left) = self.grace.judge(is_emptied, Instant::now()) {
            self.keep("every definition was removed at once".to_owned(), Some(left));
            return Ok(self.findings.borrow().clone());
        }
        let read = (digests(&snapshot.files), snapshot.ignored.clone());
        let is_news = self.last.as_ref() != Some(&read) || read.0.values().any(Option::is_none);
        if is_news {
            self.take(snapshot, &read.0);
        } else {
            self.unchanged();
        }
        self.last = Some(read);
        Ok(self.findings.borrow().clone())
    }

    /// Makes what was read the definitions that should be served.
    fn take(&mut self, snapshot: Snapshot, read: &Digests) {
        let before = self.catalogs.borrow().clone();
        let mut warnings = notes(&snapshot.ignored);
        let (catalog, problems) = self.ledger.update(snapshot.files);
        warnings.extend(self.ledger.warnings().iter().cloned());
        self.tell(&problems, &warnings);
        let bad: Vec<_> = problems.iter().map(|problem| problem.file.as_str()).collect();
        self.history.record(read, &bad);
        self.history.settle(&before, &catalog, |name| self.ledger.owner(name));
        let result = match (problems.is_empty(), catalog != before) {
            (false, _) => Reload::Partial,
            (true, true) => Reload::Applied,
            (true, false) => Reload::Unchanged,
        };
        let troubles = problems.iter().map(Trouble::of).collect();
        self.publish(Found { result, troubles, kept: None, ..self.found() });
        if catalog != before {
            info!(plugins = catalog.len(), "definitions changed");
            self.catalogs.send_replace(catalog);
        }
    }

    /// Nothing is different from the last look, except that it may have failed.
    fn unchanged(&mut self) {
        let found = self.found();
        if found.kept.is_some() {
            info!("the definitions can be read again; nothing has changed");
        }
        let is_good = found.troubles.is_empty();
        let result = if is_good { Reload::Unchanged } else { Reload::Partial };
        self.publish(Found { result, kept: None, ..found });
    }

    /// Keeps everything as it is, and says why once.
    fn keep(&mut self, reason: String, left: Option<Duration>) {
        let found = self.found();
        if found.kept.as_ref().is_none_or(|kept| kept.reason != reason) {
            let seconds_left = left.map(|left| left.as_secs());
            warn!(reason, seconds_left, "keeping the definitions there are");
        }
        let kept = Some(Kept { reason, left });
        self.publish(Found { result: Reload::Rejected, kept, ..found });
    }

    /// What was found last, brought up to date.
    fn found(&self) -> Found {
        let found = Found::clone(&self.findings.borrow().0);
        let origins = self.history.origins().clone();
        let (generation, watching) = (self.history.generation, self.watching);
        Found { generation, origins, watching, ..found }
    }

    fn publish(&mut self, found: Found) {
        let good_since = if found.is_good() { Some(SystemTime::now()) } else { found.good_since };
        let found = Found { good_since, ..found };
        self.metrics.configured(&found.summary(self.history.digest()));
        self.findings.send_replace(Findings(Arc::new(found)));
    }

    fn tell(&mut self, problems: &[Problem], warnings: &[Problem]) {
        let texts: Vec<_> = problems.iter().chain(warnings).map(ToString::to_string).collect();
        let is_told = |problem: &&Problem| !self.told.contains(&problem.to_string());
        for problem in problems.iter().filter(is_told) {
            let kept = if problem.stale { "its last good definition is served" } else { "ignored" };
            let Problem { file, place, problem, .. } = problem;
            let (code, help) = (problem.code, problem.help.as_deref());
            error!(file, %place, %code, error = %problem, help, kept, "not a valid plugin");
        }
        for Problem { file, place, problem, .. } in warnings.iter().filter(is_told) {
            let (code, help) = (problem.code, problem.help.as_deref());
            match problem.severity() {
                Severity::Note => info!(file, %place, %code, note = %problem, help, "a plugin"),
                Severity::Warning | Severity::Error => {
                    warn!(file, %place, %code, error = %problem, help, "a doubtful plugin");
                }
            }
        }
        if problems.is_empty() && !self.findings.borrow().troubles().is_empty() {
            info!("every definition is valid again");
        }
        self.told = texts;
    }
}
