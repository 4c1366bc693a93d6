//! The last good definition of each file, and the set of plugins that follows.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry as Slot},
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use cmp_sandbox::Tier;

use super::snapshot::{Extent, Source};
use crate::plugin::{
    Catalog, Code, Diagnostic, MAX_SOCKET_PATH, Place, PluginDefinition, PluginName, Problem,
    Reading, Region, Related, Severity, read_all, read_first,
};

/// The last good definition at every place in every file.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// The sidecar's isolation.
    isolation: Tier,
    /// The directory for sockets, if there will be any.
    sockets: Option<PathBuf>,
    good: BTreeMap<Location, Entry>,
    /// The place that owns each plugin name.
    owners: BTreeMap<PluginName, Location>,
    warnings: Vec<Problem>,
    /// Definitions of the last update, including invalid ones.
    defined: usize,
}

/// A file's name, and a place in the file.
type Location = (String, Place);

/// A valid definition.
#[derive(Clone, Debug)]
struct Entry {
    definition: Arc<PluginDefinition>,
    /// Region of `metadata.name`.
    name_region: Option<Region>,
    /// True if the current text at this place is invalid.
    stale: bool,
}

/// A definition that an earlier process had in use.
pub(super) struct Resumed {
    pub(super) file: String,
    pub(super) reading: Reading,
    /// True if the plugin's name belongs to this one, should there be others.
    pub(super) is_owner: bool,
}

/// The standing of a good definition.
pub(super) struct Standing<'l> {
    pub(super) place: &'l Place,
    /// True if it is not in the current text.
    pub(super) is_stale: bool,
    pub(super) is_owner: bool,
}

impl Entry {
    /// The definition in the current text, if it is valid.
    fn of(reading: &Reading) -> Option<Self> {
        let definition = Arc::new(reading.definition.clone()?);
        Some(Self { definition, name_region: reading.name_region, stale: false })
    }
}

impl Ledger {
    /// An empty ledger. Plugins that require more than `isolation` are refused.
    pub(crate) fn new(isolation: Tier) -> Self {
        Self {
            isolation,
            sockets: None,
            good: BTreeMap::new(),
            owners: BTreeMap::new(),
            warnings: Vec::new(),
            defined: 0,
        }
    }

    /// Also refuses plugins whose sockets would have paths that are too long in `directory`.
    pub(super) fn for_sockets_in(self, directory: &Path) -> Self {
        Self { sockets: Some(directory.to_owned()), ..self }
    }

    /// Begins with the definitions of an earlier process. Returns those to serve.
    pub(super) fn resume(&mut self, definitions: impl Iterator<Item = Resumed>) -> Catalog {
        for Resumed { file, reading, is_owner } in definitions {
            let reading = self.check(reading);
            let Some(entry) = Entry::of(&reading) else { continue };
            let location = (file, reading.place);
            if is_owner {
                self.owners.insert(entry.definition.name.clone(), location.clone());
            }
            self.good.insert(location, entry);
        }
        self.defined = self.good.len();
        self.settle(&mut Vec::new())
    }

    /// The good definitions of a file.
    pub(super) fn in_file(&self, file: &str) -> impl Iterator<Item = Standing<'_>> {
        let first = (file.to_owned(), Place::default());
        let here = self.good.range(first..).take_while(move |((name, _), _)| name == file);
        here.map(|(location @ (_, place), Entry { definition, stale, .. })| {
            let is_owner = self.owners.get(&definition.name) == Some(location);
            Standing { place, is_stale: *stale, is_owner }
        })
    }

    /// Updates the ledger with the files of a snapshot.
    pub(super) fn update(&mut self, files: Vec<Source>) -> (Catalog, Vec<Problem>) {
        self.take(files.into_iter().map(readings))
    }

    /// Updates the ledger with the readings of all files. Returns the definitions
    /// to serve and the errors. If two places define the same plugin, the one
    /// that already has the name keeps it while it is valid.
    pub(crate) fn take(
        &mut self,
        files: impl Iterator<Item = (String, Vec<Reading>)>,
    ) -> (Catalog, Vec<Problem>) {
        let check = |reading| self.check(reading);
        let files: Vec<(_, Vec<_>)> = files
            .map(|(file, readings)| (file, readings.into_iter().map(check).collect()))
            .collect();
        let mut before = std::mem::replace(&mut self.good, valid(&files));
        // A definition that moved replaces its old copy, which a broken text may still keep.
        let plugins: BTreeSet<_> = self.good.values().map(|entry| &entry.definition.name).collect();
        before.retain(|location, old| {
            !self.good.contains_key(location) && !plugins.contains(&old.definition.name)
        });
        let mut problems = Vec::new();
        let mut names = Vec::new();
        self.defined = 0;
        for (file, readings) in files {
            names.push(file.clone());
            for reading in readings {
                let stale = self.keep(&file, &reading, &before);
                if reading.is_doubtful && !stale {
                    continue;
                }
                self.defined += 1;
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
        warnings.extend(note_other_files(&names));
        self.warnings = warnings;
        (self.settle(&mut errors), errors)
    }

    /// The file and the place that define a plugin.
    pub(crate) fn owner(&self, name: &PluginName) -> Option<(&str, &Place)> {
        self.owners.get(name).map(|(file, place)| (file.as_str(), place))
    }

    /// True if a plugin is served by its last good definition.
    pub(super) fn is_stale(&self, name: &PluginName) -> bool {
        let entry = self.owners.get(name).and_then(|owner| self.good.get(owner));
        entry.is_some_and(|entry| entry.stale)
    }

    /// Number of definitions in the last update, including invalid ones.
    pub(super) fn defined(&self) -> usize {
        self.defined
    }

    /// Warnings and notes of the last update.
    pub(crate) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Removes a definition that cannot be served here.
    fn check(&self, reading: Reading) -> Reading {
        self.check_socket(self.check_isolation(reading))
    }

    /// Removes a definition that requires more isolation than the sidecar has.
    fn check_isolation(&self, reading: Reading) -> Reading {
        let required = reading.definition.as_ref().and_then(|d| d.sandbox.minimum_isolation);
        match required.filter(|required| *required > self.isolation) {
            None => reading,
            Some(required) => {
                let reason = weak(required, self.isolation).at(reading.isolation_region);
                refuse(reading, reason)
            }
        }
    }

    /// Removes a definition whose socket cannot be created. One that is served already stays.
    fn check_socket(&self, reading: Reading) -> Reading {
        let (Some(sockets), Some(definition)) = (&self.sockets, &reading.definition) else {
            return reading;
        };
        let length = sockets.join(definition.name.socket_file()).as_os_str().len();
        if length <= MAX_SOCKET_PATH {
            return reading;
        }
        let reason = long(length, sockets).at(reading.name_region);
        refuse(reading, reason)
    }

    /// For an invalid part of a file, keeps the last good definitions in it; returns
    /// true if there are any.
    fn keep(&mut self, file: &str, reading: &Reading, before: &BTreeMap<Location, Entry>) -> bool {
        if reading.definition.is_some() {
            return false;
        }
        let is_inside = |name: &str, place: &Place| name == file && reading.place.holds(place);
        let mut kept = before.iter().filter(|((name, place), _)| is_inside(name, place)).peekable();
        let is_stale = kept.peek().is_some();
        let stale = |entry: &Entry| Entry { stale: true, ..entry.clone() };
        self.good.extend(kept.map(|(location, entry)| (location.clone(), stale(entry))));
        is_stale
    }

    /// Selects one definition for each name: the one that already has the name,
    /// or else the first by file name.
    fn settle(&mut self, problems: &mut Vec<Problem>) -> Catalog {
        let mut owners = BTreeMap::<PluginName, (&Location, &Entry)>::new();
        for newcomer @ (location, entry) in &self.good {
            let name = &entry.definition.name;
            match owners.entry(name.clone()) {
                Slot::Vacant(vacant) => drop(vacant.insert(newcomer)),
                Slot::Occupied(mut owner) => {
                    let has_it = self.owners.get(name) == Some(location);
                    let loser = if has_it { owner.insert(newcomer) } else { newcomer };
                    // The text of a kept copy is gone, so nobody can rename it.
                    if !entry.stale {
                        problems.push(duplicate(loser, *owner.get()));
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

/// The valid definitions of files.
fn valid(files: &[(String, Vec<Reading>)]) -> BTreeMap<Location, Entry> {
    let all = files.iter().flat_map(|(file, readings)| readings.iter().map(move |one| (file, one)));
    let entry = |(file, reading): (&String, &Reading)| {
        Some(((file.clone(), reading.place.clone()), Entry::of(reading)?))
    };
    all.filter_map(entry).collect()
}

fn readings(source: Source) -> (String, Vec<Reading>) {
    let readings = match (source.text, source.extent) {
        (Ok(text), Extent::All) => read_all(&text),
        (Ok(text), Extent::First) => vec![read_first(&text)],
        (Err(reason), _) => vec![Reading::refused(Place::default(), reason.diagnostic())],
    };
    (source.name, readings)
}

/// Removes a definition that is valid elsewhere.
fn refuse(reading: Reading, reason: Diagnostic) -> Reading {
    let mut diagnostics = reading.diagnostics;
    diagnostics.push(reason);
    Reading { definition: None, diagnostics, ..reading }
}

fn long(length: usize, sockets: &Path) -> Diagnostic {
    let text = format!(
        "the socket's path would have {length} bytes in {}: the limit is {MAX_SOCKET_PATH} bytes",
        sockets.display()
    );
    Diagnostic::new(Code::Name, text)
        .label(format!("{} bytes too long", length - MAX_SOCKET_PATH))
        .help("shorten the name, or choose a shorter --socket-dir")
}

fn weak(required: Tier, present: Tier) -> Diagnostic {
    let text = format!(
        "spec.sandbox.minimumIsolation requires `{required}`, but this sidecar has `{present}`"
    );
    Diagnostic::new(Code::Isolation, text).help(format!(
        "give the sidecar the rights that `cmp-supervisor doctor` lists for `{required}`, or set a weaker minimumIsolation"
    ))
}

/// Notes that argocd-cmp-server would read only one of these files.
fn note_other_files(files: &[String]) -> Option<Problem> {
    let place = |file: &String| Path::new(file).parent().map(Path::to_owned);
    let only = files.iter().find(|file| Path::new(file).file_name() == Some(OsStr::new(ONLY)))?;
    let others = files.iter().filter(|file| *file != only && place(file) == place(only)).count();
    let text = format!("argocd-cmp-server would read only this file, not the {others} next to it");
    let problem = Diagnostic::new(Code::OtherFiles, text)
        .help("rename it if only cmp-supervisor reads this directory");
    (others > 0).then(|| Problem::of_file(only, problem))
}

/// The only file that argocd-cmp-server reads.
const ONLY: &str = "plugin.yaml";

fn duplicate(
    (location, entry): (&Location, &Entry),
    (owner, owning): (&Location, &Entry),
) -> Problem {
    let (file, place) = location;
    let socket = entry.definition.name.socket_file();
    let other = match owner.1.to_string() {
        place if place.is_empty() => owner.0.clone(),
        place => format!("{} ({place})", owner.0),
    };
    let text = format!(
        "socket `{socket}` is already used: `{other}` defines a plugin with this name: rename one of them"
    );
    let label = "has this socket".to_owned();
    let related = Related { file: owner.0.clone(), region: owning.name_region, label };
    let problem = Diagnostic::new(Code::DuplicateSocket, text)
        .at(entry.name_region)
        .label("needs the same socket");
    let problem = Diagnostic { related: vec![related], ..problem };
    Problem { file: file.clone(), place: place.clone(), stale: false, problem }
}
