//! What each file held when it was last good, and what follows from all files.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    ffi::OsStr,
    path::Path,
    sync::Arc,
};

use cmp_sandbox::Tier;

use super::snapshot::{Extent, Source};
use crate::plugin::{
    Catalog, Code, Diagnostic, Place, PluginDefinition, PluginName, Problem, Reading, Region,
    Related, Severity, read_all, read_first,
};

/// The last good definition of every place in every file.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// What requests are kept apart by.
    isolation: Tier,
    good: BTreeMap<Location, Entry>,
    /// The place whose definition has a name.
    owners: BTreeMap<PluginName, Location>,
    warnings: Vec<Problem>,
}

/// A file's name, and a place in the file.
type Location = (String, Place);

/// A definition, and what is known of it.
#[derive(Clone, Debug)]
struct Entry {
    definition: Arc<PluginDefinition>,
    /// Where its name stood.
    named: Option<Region>,
    /// Whether what is there now is broken.
    stale: bool,
}

impl Ledger {
    /// An empty ledger for plugins whose requests are kept apart so well.
    pub(crate) fn new(isolation: Tier) -> Self {
        Self { isolation, good: BTreeMap::new(), owners: BTreeMap::new(), warnings: Vec::new() }
    }

    /// Takes in the files of a snapshot.
    pub(super) fn update(&mut self, files: Vec<Source>) -> (Catalog, Vec<Problem>) {
        self.take(files.into_iter().map(readings))
    }

    /// Takes in all that there is in files, by their names. Of two places that
    /// claim a name, the one that has it keeps it, whatever changes in either.
    pub(crate) fn take(
        &mut self,
        files: impl Iterator<Item = (String, Vec<Reading>)>,
    ) -> (Catalog, Vec<Problem>) {
        let before = std::mem::take(&mut self.good);
        let mut problems = Vec::new();
        let mut names = Vec::new();
        for (file, readings) in files {
            names.push(file.clone());
            for reading in readings {
                let reading = self.confined(reading);
                let stale = self.keep(&file, &reading, &before);
                let Reading { place, diagnostics, .. } = reading;
                problems.extend(diagnostics.into_iter().map(|problem| Problem {
                    file: file.clone(),
                    place: place.clone(),
                    stale,
                    problem,
                }));
            }
        }
        let is_error = |problem: &Problem| problem.problem.severity() == Severity::Error;
        let (mut errors, mut warnings): (Vec<_>, Vec<_>) = problems.into_iter().partition(is_error);
        warnings.extend(alone(&names));
        self.warnings = warnings;
        (self.settle(&mut errors), errors)
    }

    /// The file whose definition has a name, and the place in it.
    pub(crate) fn owner(&self, name: &PluginName) -> Option<(&str, &Place)> {
        self.owners.get(name).map(|(file, place)| (file.as_str(), place))
    }

    /// What is served and should be changed nevertheless, as of the last update.
    pub(crate) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// A definition that demands more than there is becomes none.
    fn confined(&self, reading: Reading) -> Reading {
        let demanded = reading.definition.as_ref().and_then(|d| d.sandbox.minimum_isolation);
        match demanded.filter(|demanded| *demanded > self.isolation) {
            None => reading,
            Some(demanded) => {
                let mut diagnostics = reading.diagnostics;
                diagnostics.push(weak(demanded, self.isolation).at(reading.isolation_region));
                Reading { definition: None, diagnostics, ..reading }
            }
        }
    }

    /// Takes in a good definition; of a broken part, what was good in it, and
    /// says whether there was any.
    fn keep(&mut self, file: &str, reading: &Reading, before: &BTreeMap<Location, Entry>) -> bool {
        if let Some(definition) = &reading.definition {
            let definition = Arc::new(definition.clone());
            let entry = Entry { definition, named: reading.name_region, stale: false };
            self.good.insert((file.to_owned(), reading.place.clone()), entry);
            return false;
        }
        let is_held = |name: &str, place: &Place| name == file && reading.place.holds(place);
        let mut kept = before.iter().filter(|((name, place), _)| is_held(name, place)).peekable();
        let is_stale = kept.peek().is_some();
        let stale = |entry: &Entry| Entry { stale: true, ..entry.clone() };
        self.good.extend(kept.map(|(location, entry)| (location.clone(), stale(entry))));
        is_stale
    }

    /// One definition for each name: that of the place which has it already, or
    /// else of the first by name.
    fn settle(&mut self, problems: &mut Vec<Problem>) -> Catalog {
        let mut owners = BTreeMap::<PluginName, (&Location, &Entry)>::new();
        for newcomer @ (location, entry) in &self.good {
            let name = &entry.definition.name;
            match owners.entry(name.clone()) {
                Slot::Vacant(vacant) => drop(vacant.insert(newcomer)),
                Slot::Occupied(mut owner) => {
                    let (holder, held) = *owner.get();
                    // Its author has moved it within the file.
                    let is_moved = holder.0 == location.0 && held.stale != entry.stale;
                    let has_it = self.owners.get(name) == Some(location);
                    let wins = if is_moved { !entry.stale } else { has_it };
                    let loser = if wins { owner.insert(newcomer) } else { newcomer };
                    if !is_moved {
                        problems.push(taken(loser, *owner.get()));
                    }
                }
            }
        }
        let catalog = owners.values().map(|(_, entry)| Arc::clone(&entry.definition)).collect();
        self.owners =
            owners.into_iter().map(|(name, (location, _))| (name, location.clone())).collect();
        catalog
    }
}

fn readings(source: Source) -> (String, Vec<Reading>) {
    let readings = match (source.text, source.extent) {
        (Ok(text), Extent::All) => read_all(&text),
        (Ok(text), Extent::First) => vec![read_first(&text)],
        (Err(reason), _) => vec![Reading::refused(Place::default(), reason.diagnostic())],
    };
    (source.name, readings)
}

fn weak(demanded: Tier, present: Tier) -> Diagnostic {
    let text = format!(
        "spec.sandbox.minimumIsolation demands {demanded}, and requests are kept apart by {present}"
    );
    Diagnostic::new(Code::Isolation, text).help(format!(
        "give the sidecar what {demanded} needs, as `cmp-supervisor doctor` tells, or demand less"
    ))
}

/// argocd-cmp-server would serve its only file and none beside it.
fn alone(files: &[String]) -> Option<Problem> {
    let place = |file: &String| Path::new(file).parent().map(Path::to_owned);
    let only = files.iter().find(|file| Path::new(file).file_name() == Some(OsStr::new(ONLY)))?;
    let others = files.iter().filter(|file| *file != only && place(file) == place(only)).count();
    let text = format!("argocd-cmp-server would read this file, and none of {others} beside it");
    let problem = Diagnostic::new(Code::OtherFiles, text).help("give it a name of its own");
    (others > 0).then(|| Problem::of_file(only, problem))
}

/// The only file that argocd-cmp-server reads.
const ONLY: &str = "plugin.yaml";

fn taken((location, entry): (&Location, &Entry), (owner, owning): (&Location, &Entry)) -> Problem {
    let (file, place) = location;
    let socket = entry.definition.name.socket_file();
    let other = match owner.1.to_string() {
        place if place.is_empty() => owner.0.clone(),
        place => format!("{} ({place})", owner.0),
    };
    let text =
        format!("{socket} is taken: {other} defines a plugin of that name; rename one of them");
    let label = "has this socket".to_owned();
    let related = Related { file: owner.0.clone(), region: owning.named, label };
    let problem =
        Diagnostic::new(Code::DuplicateSocket, text).at(entry.named).label("wants the same socket");
    let problem = Diagnostic { related: vec![related], ..problem };
    Problem { file: file.clone(), place: place.clone(), stale: false, problem }
}
