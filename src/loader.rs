//! Reads the plugins' definitions at start and after each change.
//!
//! A file system event is only a hint to read again. Definitions are also read at
//! regular intervals, because events can get lost.

mod examiner;
mod follow;
mod grace;
mod hiding;
mod history;
mod ignored;
mod last_good;
mod ledger;
mod mount;
mod only_plugin;
mod places;
mod silence;
mod snapshot;
mod source;
mod stamp;
mod subject;
#[cfg(test)]
mod tests;
mod usable;
mod watch;

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use cmp_sandbox::Tier;
use tokio::sync::watch::{Sender, channel};
use tracing::{error, info, warn};

use self::{
    examiner::{Examiner, Found},
    follow::QUIET,
    grace::{Decision, Grace},
    hiding::Hiding,
    history::{Digests, digests, settle},
    last_good::LastGood,
    only_plugin::OnlyPlugin,
    places::PlacesReader,
    usable::Usability,
};
pub use self::{
    follow::Prompt,
    mount::{StaticMount, static_mounts},
    places::Places,
    snapshot::{NoSnapshot, Unreadable},
};
pub(crate) use self::{
    ignored::{Exclusion, Ignored},
    last_good::LAST_GOOD,
    ledger::Ledger,
    snapshot::{MAX_FILE, Snapshot, Source, is_definition},
};
use crate::{
    event::{self, Event, TOLD},
    hidden::Watched,
    metrics::{Metrics, Reload},
    plugin::{Catalog, Code, Place, Problem, Severity},
    state::{Kept, State},
};

/// Reads definitions and publishes the result as [`State`].
#[derive(Debug)]
pub struct Loader {
    reader: PlacesReader,
    grace: Grace,
    ledger: Ledger,
    metrics: Metrics,
    state: Sender<State>,
    /// Content that is in use; `None` if other content was read after it and not used.
    last: Option<(Digests, Vec<Ignored>)>,
    /// True if the kernel reports changes.
    watching: bool,
    /// Time without changes before the next read.
    quiet: Duration,
    /// Problems that were logged last time, so that each is logged once.
    logged: Vec<String>,
    /// `None` if nobody examines programs and paths.
    examiner: Option<Examiner>,
    only_plugin: OnlyPlugin,
    /// `None` if no later process of the container gets them.
    last_good: Option<LastGood>,
}

/// Reads definitions once, without checking their `minimumIsolation`. Returns the
/// valid ones and all problems.
pub(crate) fn read_once(places: Places) -> Result<(Catalog, Vec<Problem>), NoSnapshot> {
    let snapshot = PlacesReader::new(places).read()?;
    let notes = notes(&snapshot.ignored);
    let mut ledger = Ledger::new(Tier::Namespaces);
    let (catalog, mut problems) = ledger.update(snapshot.files);
    problems.extend(ledger.warnings().iter().cloned().chain(notes));
    Ok((catalog, problems))
}

fn notes(ignored: &[Ignored]) -> Vec<Problem> {
    let note = |entry: &Ignored| Problem::of_file(&entry.name, entry.diagnostic());
    ignored.iter().map(note).collect()
}

impl Loader {
    /// A loader that has read nothing yet, and its state. Plugins that require
    /// more than `isolation` are refused. While no valid definition is left, the
    /// last ones stay in use for `grace`.
    #[must_use]
    pub fn new(
        places: Places,
        isolation: Tier,
        grace: Duration,
        metrics: Metrics,
    ) -> (Self, Sender<State>) {
        let (state, _) = channel(State::default());
        let loader = Self {
            reader: PlacesReader::new(places),
            grace: Grace::new(grace),
            ledger: Ledger::new(isolation),
            metrics,
            state: state.clone(),
            last: None,
            watching: false,
            quiet: QUIET,
            logged: Vec::new(),
            examiner: None,
            only_plugin: OnlyPlugin::default(),
            last_good: None,
        };
        (loader, state)
    }

    /// Also refuses plugins whose sockets would have paths that are too long in `directory`.
    pub(crate) fn serving_in(self, directory: &Path) -> Self {
        Self { ledger: self.ledger.for_sockets_in(directory), ..self }
    }

    /// At each read, also examines the programs of commands in the `PATH` `search`, and
    /// paths that plugins may miss, and gives the only plugin the Secrets of the container.
    pub(crate) fn examining(self, search: Bytes, watched: Watched) -> io::Result<Self> {
        let watched = Arc::new(watched);
        let only_plugin = OnlyPlugin::new(Arc::clone(&watched));
        let examiner = Examiner::start(Usability::new(search), Hiding::new(watched))?;
        Ok(Self { examiner: Some(examiner), only_plugin, ..self })
    }

    /// Begins with the last good definitions of an earlier process, and keeps them for a later one.
    pub(crate) fn remembering(mut self, directory: &Path) -> Self {
        self.last_good = LastGood::open(directory);
        let kept = self.last_good.iter().flat_map(LastGood::definitions);
        let catalog = self.ledger.resume(kept);
        if !catalog.is_empty() {
            let catalog = self.endow(catalog);
            self.publish(&catalog.clone(), |loader, state| {
                let digest =
                    |file: &str, place: &Place| loader.last_good.as_ref()?.digest(file, place);
                settle(state, catalog, &loader.ledger, digest);
                // Nothing is read yet.
                State { result: Reload::Rejected, ..std::mem::take(state) }
            });
        }
        self
    }

    /// Reads all definitions once. If reading fails, the definitions stay as they
    /// are and the error is logged.
    pub fn load(&mut self) -> Result<(), NoSnapshot> {
        let read = self.reader.read();
        self.accept(read)
    }

    /// Publishes the result of a read.
    fn accept(&mut self, read: Result<Snapshot, NoSnapshot>) -> Result<(), NoSnapshot> {
        let snapshot = match read {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.grace.restart();
                let problems = self.state.borrow().problems.clone();
                self.keep(Kept { reason: error.to_string(), seconds_left: None }, problems);
                return Err(error);
            }
        };
        let read = (digests(&snapshot.files), snapshot.ignored.clone());
        let is_changed = self.last.as_ref() != Some(&read) || read.0.values().any(Option::is_none);
        let is_due = self.only_plugin.waits() && self.reader.places.is_complete();
        if is_changed || is_due {
            self.last = self.take(snapshot, &read.0).then_some(read);
        } else {
            self.unchanged();
        }
        Ok(())
    }

    /// Publishes new definitions. Returns false if none of them is valid and the last ones
    /// stay in use for now.
    fn take(&mut self, snapshot: Snapshot, read: &Digests) -> bool {
        let mut ledger = self.ledger.clone();
        let mut warnings = notes(&snapshot.ignored);
        let texts = self.last_good.as_ref().map(|_| snapshot.texts()).unwrap_or_default();
        let (catalog, problems) = ledger.update(snapshot.files);
        // It is about the usual directory for sockets, not about this one.
        let warned = ledger.warnings().iter();
        warnings.extend(warned.filter(|warned| warned.problem.code != Code::SocketPath).cloned());
        self.log(&problems, &warnings);
        let is_emptied = catalog.is_empty() && !self.state.borrow().desired.is_empty();
        if let Decision::Keep(left) = self.grace.decide(is_emptied, Instant::now()) {
            self.only_plugin.count(ledger.defined());
            self.keep(Kept::emptied(left, &problems), problems);
            return false;
        }
        self.ledger = ledger;
        if let Some(last_good) = &mut self.last_good {
            last_good.keep(texts, &self.ledger);
        }
        if problems.is_empty() && !self.state.borrow().problems.is_empty() {
            info!("all definitions are valid again");
        }
        let catalog = self.endow(catalog);
        let is_changed = self.state.borrow().desired != catalog;
        if is_changed {
            info!(plugins = catalog.len(), "definitions changed");
        } else {
            self.log_return();
        }
        let result = match (problems.is_empty(), is_changed) {
            (false, _) => Reload::Partial,
            (true, true) => Reload::Applied,
            (true, false) => Reload::Unchanged,
        };
        self.publish(&catalog.clone(), |loader, state| {
            settle(state, catalog, &loader.ledger, |file, _| read.get(file).copied().flatten());
            State { result, problems, kept: None, ..std::mem::take(state) }
        });
        true
    }

    /// Gives the only plugin the Secrets of the container.
    fn endow(&mut self, catalog: Catalog) -> Catalog {
        let is_complete = || self.reader.places.is_complete();
        self.only_plugin.endow(catalog, self.ledger.defined(), is_complete)
    }

    /// Publishes that reading succeeded without a change.
    fn unchanged(&mut self) {
        self.log_return();
        if let Some(last_good) = &mut self.last_good {
            last_good.retry();
        }
        let desired = self.state.borrow().desired.clone();
        self.publish(&desired, |_, state| {
            let is_good = state.problems.is_empty();
            let result = if is_good { Reload::Unchanged } else { Reload::Partial };
            State { result, kept: None, ..std::mem::take(state) }
        });
    }

    /// Keeps the last definitions, and logs the reason once.
    fn keep(&mut self, kept: Kept, problems: Vec<Problem>) {
        log_kept(&self.state.borrow(), &kept);
        let desired = self.state.borrow().desired.clone();
        self.publish(&desired, |_, state| State {
            result: Reload::Rejected,
            kept: Some(kept),
            problems,
            ..std::mem::take(state)
        });
    }

    /// Publishes a change of the state, after which `desired` are the definitions.
    fn publish(&mut self, desired: &Catalog, change: impl FnOnce(&Self, &mut State) -> State) {
        // Not while the state is locked, because this accesses files.
        let examine = |examiner: &mut Examiner| examiner.examine(desired);
        let Found { unusable, hidden } = self.examiner.as_mut().map(examine).unwrap_or_default();
        self.state.send_modify(|state| {
            *state = change(self, state);
            state.unusable = unusable;
            state.hidden = hidden;
            state.watching = self.watching;
            if state.is_good() {
                state.good_since = Some(SystemTime::now());
            }
        });
        self.metrics.configured(&self.state.borrow().configured());
    }

    /// Logs that definitions which were kept are there again.
    fn log_return(&self) {
        if self.state.borrow().kept.is_some() {
            info!("definitions can be read again; they are as before");
        }
    }

    fn log(&mut self, problems: &[Problem], warnings: &[Problem]) {
        let texts: Vec<_> = problems.iter().chain(warnings).map(ToString::to_string).collect();
        let is_new = |problem: &&Problem| !self.logged.contains(&problem.to_string());
        for problem in problems.iter().filter(is_new) {
            let kept = if problem.stale { "its last good definition" } else { "none" };
            let Problem { file, place, problem, .. } = problem;
            let (code, help) = (problem.code, problem.help.as_deref());
            error!(target: TOLD, file, %place, %code, error = %problem, help, kept, "invalid plugin definition");
            event::tell(|| Event::NotServed {
                plugin: None,
                file: Some(file.as_str().into()),
                line: problem.region.map(|region| region.line),
                reason: problem.with_help().into(),
            });
        }
        for Problem { file, place, problem, .. } in warnings.iter().filter(is_new) {
            let (code, help) = (problem.code, problem.help.as_deref());
            match problem.severity() {
                Severity::Note => {
                    info!(file, %place, %code, note = %problem, help, "note on a plugin definition");
                }
                Severity::Warning | Severity::Error => {
                    warn!(file, %place, %code, error = %problem, help, "questionable plugin definition");
                }
            }
        }
        self.logged = texts;
    }
}

/// Logs once why the last definitions stay in use.
fn log_kept(state: &State, Kept { reason, seconds_left }: &Kept) {
    let is_known = state.kept.as_ref().is_some_and(|kept| kept.reason == *reason);
    if !is_known && state.desired.is_empty() {
        warn!(reason, "serving no plugin until the definitions can be read");
    } else if !is_known {
        warn!(reason, seconds_left, "keeping the last definitions");
    }
}
