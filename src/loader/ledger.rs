//! What each file held when it was last good, and what follows from all files.

use std::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    fmt,
    sync::Arc,
};

use super::snapshot::{Extent, Source, Unreadable};
use crate::plugin::{
    Catalog, Code, Diagnostic, Isolation, Place, PluginDefinition, PluginName, Reading, Region,
    Related, Severity, read_all, read_first,
};

/// The last good definition of every place in every file.
#[derive(Debug)]
pub(super) struct Ledger {
    /// What requests are kept apart by.
    isolation: Isolation,
    good: BTreeMap<Origin, Entry>,
    /// Whose definition has a name.
    owners: BTreeMap<PluginName, Origin>,
    warnings: Vec<Problem>,
}

/// A file's name, and a place in the file.
type Origin = (String, Place);

/// A definition, and what is known of it.
#[derive(Clone, Debug)]
struct Entry {
    definition: Arc<PluginDefinition>,
    /// Where its name stood.
    named: Option<Region>,
    /// Whether what is there now is broken.
    stale: bool,
}

/// What is wrong with a definition. Its last good form, if any, stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The part of the file.
    pub place: Place,
    /// Whether an earlier definition of it is served.
    pub stale: bool,
    /// What is wrong, and where.
    pub problem: Diagnostic,
}

/// One line: `bundle.yaml (document 2): line 7, column 14: CMP0104: …`.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        let place = self.place.to_string();
        if !place.is_empty() {
            write!(formatter, " ({place})")?;
        }
        write!(formatter, ": {}", self.problem)
    }
}

impl std::error::Error for Problem {}

impl Ledger {
    /// An empty ledger for plugins whose requests are kept apart so well.
    pub(super) fn new(isolation: Isolation) -> Self {
        Self { isolation, good: BTreeMap::new(), owners: BTreeMap::new(), warnings: Vec::new() }
    }

    /// Takes in a snapshot. Of two places that claim a name, the one that has it
    /// keeps it, whatever else changes in either.
    pub(super) fn update(&mut self, sources: Vec<Source>) -> (Catalog, Vec<Problem>) {
        let before = std::mem::take(&mut self.good);
        let mut problems = Vec::new();
        for source in sources {
            let file = source.name.clone();
            for reading in readings(source) {
                let reading = self.confined(reading);
                self.keep(&file, &reading, &before);
                let stale = reading.definition.is_none()
                    && self
                        .good
                        .keys()
                        .any(|(name, place)| *name == file && reading.place.holds(place));
                let place = reading.place;
                problems.extend(reading.diagnostics.into_iter().map(|problem| Problem {
                    file: file.clone(),
                    place: place.clone(),
                    stale,
                    problem,
                }));
            }
        }
        let is_error = |problem: &Problem| problem.problem.severity() == Severity::Error;
        let (mut errors, warnings) = problems.into_iter().partition(is_error);
        self.warnings = warnings;
        (self.settle(&mut errors), errors)
    }

    /// The file whose definition has a name.
    pub(super) fn owner(&self, name: &PluginName) -> Option<&str> {
        self.owners.get(name).map(|(file, _)| file.as_str())
    }

    /// What is served and should be changed nevertheless, as of the last update.
    pub(super) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// A definition that demands more than there is becomes none.
    fn confined(&self, reading: Reading) -> Reading {
        let demanded = reading.definition.as_ref().and_then(|d| d.sandbox.minimum_isolation);
        match demanded.filter(|demanded| *demanded > self.isolation) {
            None => reading,
            Some(demanded) => {
                let mut diagnostics = reading.diagnostics;
                diagnostics.push(weak(demanded, self.isolation).at(reading.named));
                Reading { definition: None, diagnostics, ..reading }
            }
        }
    }

    /// Takes in a good definition; of a broken part, what was good in it.
    fn keep(&mut self, file: &str, reading: &Reading, before: &BTreeMap<Origin, Entry>) {
        if let Some(definition) = &reading.definition {
            let definition = Arc::new(definition.clone());
            let entry = Entry { definition, named: reading.named, stale: false };
            self.good.insert((file.to_owned(), reading.place.clone()), entry);
            return;
        }
        for ((name, place), entry) in before {
            if name == file && reading.place.holds(place) {
                self.good
                    .insert((name.clone(), place.clone()), Entry { stale: true, ..entry.clone() });
            }
        }
    }

    /// One definition for each name: that of the place which has it already, or
    /// else of the first by name.
    fn settle(&mut self, problems: &mut Vec<Problem>) -> Catalog {
        let mut owners = BTreeMap::<PluginName, (&Origin, &Entry)>::new();
        for newcomer @ (origin, entry) in &self.good {
            let name = &entry.definition.name;
            match owners.entry(name.clone()) {
                Slot::Vacant(vacant) => drop(vacant.insert(newcomer)),
                Slot::Occupied(mut owner) => {
                    let has_it = self.owners.get(name) == Some(origin);
                    // Its author has moved it within the file.
                    let is_moved =
                        owner.get().0.0 == origin.0 && owner.get().1.stale != entry.stale;
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
            owners.into_iter().map(|(name, (origin, _))| (name, origin.clone())).collect();
        catalog
    }
}

fn readings(source: Source) -> Vec<Reading> {
    match (source.text, source.extent) {
        (Ok(text), Extent::All) => read_all(&text),
        (Ok(text), Extent::First) => vec![read_first(&text)],
        (Err(reason), _) => vec![unreadable(&reason)],
    }
}

/// Stands for all that a file held.
fn unreadable(reason: &Unreadable) -> Reading {
    let code = match reason {
        Unreadable::Large | Unreadable::Full => Code::TooLarge,
        Unreadable::Io(_) | Unreadable::Denied { .. } | Unreadable::Link | Unreadable::Kind => {
            Code::Unreadable
        }
    };
    let diagnostics = vec![Diagnostic::new(code, reason.to_string())];
    Reading { place: Place::default(), definition: None, named: None, diagnostics }
}

fn weak(demanded: Isolation, present: Isolation) -> Diagnostic {
    let text = format!(
        "spec.sandbox.minimumIsolation demands {demanded}, and requests are kept apart by {present}"
    );
    Diagnostic::new(Code::Isolation, text).help(format!(
        "give the sidecar what {demanded} needs, as `cmp-supervisor doctor` tells, or demand less"
    ))
}

fn taken((origin, entry): (&Origin, &Entry), (owner, owning): (&Origin, &Entry)) -> Problem {
    let (file, place) = origin;
    let socket = entry.definition.name.socket_file();
    let other = match owner.1.to_string() {
        place if place.is_empty() => owner.0.clone(),
        place => format!("{} ({place})", owner.0),
    };
    let text =
        format!("{socket} is taken: {other} defines a plugin of that name; rename one of them");
    let label = "has this socket".to_owned();
    let related = Related { file: owner.0.clone(), region: owning.named, label };
    let problem = Diagnostic::new(Code::Taken, text).at(entry.named).label("wants the same socket");
    let problem = Diagnostic { related: vec![related], ..problem };
    Problem { file: file.clone(), place: place.clone(), stale: false, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, name: &str, command: &str) -> Source {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n\
             spec: {{generate: {{command: [{command}]}}}}"
        );
        Source { name: file.into(), text: Ok(text.into()), extent: Extent::All }
    }

    fn broken(file: &str) -> Source {
        Source { name: file.into(), text: Ok(b"kind: Pod".to_vec()), extent: Extent::All }
    }

    fn ledger() -> Ledger {
        Ledger::new(Isolation::Uid)
    }

    /// A file with these texts as its documents.
    fn bundle(file: &str, sources: Vec<Source>) -> Source {
        let texts: Vec<_> = sources.into_iter().map(|source| source.text.unwrap()).collect();
        Source { name: file.into(), text: Ok(texts.join(&b"\n---\n"[..])), extent: Extent::All }
    }

    fn commands(catalog: &Catalog) -> Vec<String> {
        let text = |d: &Arc<PluginDefinition>| format!("{}:{}", d.name, d.generate.program());
        catalog.iter().map(text).collect()
    }

    #[test]
    fn a_broken_file_keeps_its_last_good_definition_and_no_other_cares() {
        let mut ledger = ledger();
        let good = vec![source("a.yaml", "a", "x"), source("b.yaml", "b", "x")];
        let (_, problems) = ledger.update(good);
        assert!(problems.is_empty());
        let (catalog, problems) = ledger.update(vec![broken("a.yaml"), source("b.yaml", "b", "z")]);
        assert_eq!(commands(&catalog), ["a:x", "b:z"]);
        assert!(problems[0].stale && problems[0].file == "a.yaml");
    }

    #[test]
    fn a_file_that_was_never_good_has_nothing_to_keep() {
        let (catalog, problems) = ledger().update(vec![broken("a.yaml")]);
        assert!(catalog.is_empty() && !problems[0].stale);
    }

    #[test]
    fn a_file_that_is_gone_takes_its_plugin_with_it() {
        let mut ledger = ledger();
        ledger.update(vec![source("a.yaml", "a", "x")]);
        assert!(ledger.update(vec![]).0.is_empty());
    }

    #[test]
    fn of_two_files_with_one_name_the_first_has_it_and_both_are_told_of() {
        let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", "z")];
        let (catalog, problems) = ledger().update(files);
        assert_eq!(commands(&catalog), ["same:x"]);
        let text = problems[0].to_string();
        assert!(text.contains("b.yaml") && text.contains("a.yaml") && text.contains("same.sock"));
    }

    #[test]
    fn who_is_served_keeps_the_name() {
        let mut ledger = ledger();
        ledger.update(vec![source("b.yaml", "same", "z")]);
        let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", "z")];
        let (catalog, problems) = ledger.update(files);
        assert_eq!(commands(&catalog), ["same:z"]);
        assert_eq!(problems[0].file, "a.yaml");
    }

    #[test]
    fn each_document_keeps_its_own_last_good_definition() {
        let mut ledger = ledger();
        let good = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
        ledger.update(vec![good]);
        let text = b"kind: ConfigManagementPlugin".to_vec();
        let bad = Source { name: String::new(), text: Ok(text), extent: Extent::All };
        let half = bundle("f.yaml", vec![bad, source("", "b", "z")]);
        let (catalog, problems) = ledger.update(vec![half]);
        assert_eq!(commands(&catalog), ["a:x", "b:z"]);
        assert!(
            problems.iter().all(|problem| problem.stale && problem.place.to_string().is_empty())
        );
        let (catalog, _) = ledger.update(vec![source("f.yaml", "b", "z")]);
        assert_eq!(commands(&catalog), ["b:z"]);
    }

    #[test]
    fn a_broken_container_keeps_all_that_was_in_it() {
        let config_map = |data: &str| Source {
            name: "m.yaml".into(),
            text: Ok(format!("kind: ConfigMap\ndata:\n{data}").into()),
            extent: Extent::All,
        };
        let entry = |name: &str| {
            format!(
                "  {name}: '{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, spec: {{generate: {{command: [x]}}}}}}'\n"
            )
        };
        let mut ledger = ledger();
        let both = config_map(&(entry("a") + &entry("b")));
        let (served, _) = ledger.update(vec![both]);
        assert_eq!(commands(&served), ["a:x", "b:x"]);
        let (kept, problems) = ledger.update(vec![config_map("  a: 'x\n")]);
        assert_eq!(commands(&kept), ["a:x", "b:x"]);
        assert!(problems[0].stale);
        let (one, _) = ledger.update(vec![config_map(&entry("b"))]);
        assert_eq!(commands(&one), ["b:x"]);
    }

    #[test]
    fn a_definition_that_moves_within_its_file_is_no_rival_of_its_old_place() {
        let mut ledger = ledger();
        let before = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
        ledger.update(vec![before]);
        let bad = Source { text: Ok(b"kind: ConfigManagementPlugin".to_vec()), ..broken("") };
        let after = bundle("f.yaml", vec![bad, source("", "a", "z"), source("", "b", "x")]);
        let (catalog, problems) = ledger.update(vec![after]);
        assert_eq!(commands(&catalog), ["a:z", "b:x"]);
        assert!(problems.iter().all(|problem| problem.problem.code != Code::Taken), "{problems:?}");
    }

    #[test]
    fn alone_a_file_is_read_as_argo_cd_reads_it() {
        let both = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
        let both = Source { extent: Extent::First, ..both };
        let (catalog, problems) = ledger().update(vec![both]);
        assert_eq!(commands(&catalog), ["a:x"]);
        assert!(problems.is_empty());
    }

    #[test]
    fn a_plugin_that_demands_more_isolation_than_there_is_is_not_served() {
        let demand = |isolation: &str| {
            let text = format!(
                "kind: ConfigManagementPlugin\nmetadata: {{name: a}}\n\
                 spec: {{generate: {{command: [x]}}, sandbox: {{minimumIsolation: {isolation}}}}}"
            );
            Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All }
        };
        for (present, demanded, is_served) in [
            (Isolation::Uid, "namespaces", false),
            (Isolation::Uid, "uid", true),
            (Isolation::Uid, "landlock", true),
            (Isolation::None, "landlock", false),
            (Isolation::Namespaces, "uid", true),
        ] {
            let mut ledger = Ledger::new(present);
            let (catalog, problems) = ledger.update(vec![demand(demanded)]);
            assert_eq!(catalog.len(), usize::from(is_served), "{present} {demanded}");
            let names_both = |problem: &Problem| {
                let text = problem.to_string();
                text.contains(demanded) && text.contains(&present.to_string())
            };
            assert_eq!(problems.iter().any(names_both), !is_served);
        }
    }

    #[test]
    fn warnings_hold_nothing_up() {
        let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\n\
                    spec: {generate: {command: [x], arg: [z]}}";
        let odd = Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All };
        let mut ledger = ledger();
        let (catalog, problems) = ledger.update(vec![odd]);
        assert_eq!((catalog.len(), problems.len()), (1, 0));
        assert!(ledger.warnings().iter().any(|warning| warning.to_string().contains("CMP0108")));
    }
}
