//! A file that holds definitions: one, or many in several ways.
//!
//! argocd-cmp-server reads the first document of one file. Here a file may
//! have several documents, be the manifest of a `ConfigMap` with definitions
//! in it, or a list of such things, as `kubectl` and `kustomize` print them.
//! Whatever else it holds is skipped.

mod sort;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use serde_json::Value;

use self::sort::{Sort, mentions_kind};
use super::{
    Code, Diagnostic, InvalidManifest, Part, Place, PluginDefinition, Region, diagnose, document,
    lint::lint,
    manifest::{self, Judgement, KIND, Step},
    passage::{File, Map, Passage},
    site::Site,
    suggestion::nearest,
};

/// Most definitions that one file may hold. Every plugin has a socket that
/// Argo CD asks one after the other, so nobody has use for more.
pub const MAX_DEFINITIONS: usize = 100;

/// The number of the first definition that argocd-cmp-server would not see.
const SECOND: usize = 2;

/// What one part of a file turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which part.
    pub place: Place,
    /// Present if and only if no diagnostic is an error.
    pub definition: Option<PluginDefinition>,
    /// Where its name stands, if it has one.
    pub named: Option<Region>,
    /// Where it demands isolation, or else where it could.
    pub demanding: Option<Region>,
    /// What there is to say, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    /// A part that holds nothing, for one reason.
    #[must_use]
    pub fn refused(place: Place, reason: Diagnostic) -> Self {
        Self { place, definition: None, named: None, demanding: None, diagnostics: vec![reason] }
    }
}

/// Reads every definition of a file. There is always at least one reading: a
/// file without any definition is a fault.
#[must_use]
pub fn read_all(text: &[u8]) -> Vec<Reading> {
    let text = &*cmp_yaml::utf8(text);
    let file = File(text);
    let map = Map::identity();
    let mut bundle = Bundle::default();
    let whole = Passage { text, base: 0, map: &map, file };
    bundle.text(&whole, &Place::default(), Depth::File);
    if bundle.readings.is_empty() {
        bundle.readings.push(bundle.nothing(text));
    }
    bundle.readings
}

/// Reads a file as argocd-cmp-server does: its first document and nothing else.
#[must_use]
pub fn read_first(text: &[u8]) -> Reading {
    let text = &*cmp_yaml::utf8(text);
    let map = Map::identity();
    let passage = Passage { text, base: 0, map: &map, file: File(text) };
    let place = Place::default().with(Part::Document(1));
    match Document::new(&passage) {
        Ok(document) => {
            let reading = document.judged(place, &[], &document.value);
            match document::split(text).len() {
                0 => empty(text),
                _ => reading,
            }
        }
        Err(fault) => broken(&fault, &passage, place),
    }
}

/// How far inside something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// In the file itself.
    File,
    /// In a `ConfigMap`, where another is not looked into.
    Wrapped,
}

/// A value of a document.
struct Spot {
    path: Vec<Step>,
    place: Place,
}

#[derive(Default)]
struct Bundle {
    readings: Vec<Reading>,
    /// Documents of the file, those that are `null` left out.
    documents: usize,
    /// Whether one of them holds others.
    has_containers: bool,
    is_full: bool,
}

/// A document that is YAML.
struct Document<'d> {
    passage: &'d Passage<'d>,
    value: Value,
    /// Made when somebody asks where something stands.
    tree: OnceCell<Option<cmp_yaml::Tree<'d>>>,
}

impl Bundle {
    fn text(&mut self, passage: &Passage<'_>, place: &Place, depth: Depth) {
        let documents = document::split(passage.text);
        let is_only = documents.len() == 1 && depth == Depth::File;
        let mut definitions = 0;
        for (number, range) in documents.into_iter().enumerate() {
            let Some(text) = passage.text.get(range.clone()) else { continue };
            let passage = Passage { text, base: passage.base + range.start, ..passage.clone() };
            let place = place.with(Part::Document(number + 1));
            match Document::new(&passage) {
                Ok(document) => {
                    self.document(&document, &place, depth);
                    if matches!(Sort::of(&document.value), Sort::Plugin) {
                        definitions += 1;
                        self.tell_of_others(definitions);
                    }
                }
                // What is broken is ours if it says so.
                Err(fault) if is_only || mentions_kind(text) => {
                    self.documents += 1;
                    self.push(broken(&fault, &passage, place));
                }
                Err(_) => self.documents += 1,
            }
        }
    }

    fn document(&mut self, document: &Document<'_>, place: &Place, depth: Depth) {
        let sort = Sort::of(&document.value);
        if depth == Depth::File && !matches!(sort, Sort::Nothing) {
            self.documents += 1;
        }
        if !matches!(sort, Sort::List) {
            let spot = Spot { path: Vec::new(), place: place.clone() };
            return self.value(document, spot, depth);
        }
        self.has_containers = true;
        let (path, items) = items(&document.value);
        for (index, _) in items.iter().enumerate() {
            let path = path.iter().cloned().chain([Step::Index(index)]).collect();
            let spot = Spot { path, place: place.with(Part::Item(index)) };
            self.value(document, spot, depth);
        }
    }

    fn value(&mut self, document: &Document<'_>, spot: Spot, depth: Depth) {
        let Some(value) = follow(&document.value, &spot.path) else { return };
        match Sort::of(value) {
            Sort::Plugin => self.push(document.judged(spot.place, &spot.path, value)),
            Sort::ConfigMap if depth == Depth::File => {
                self.has_containers = true;
                self.config_map(document, &spot);
            }
            Sort::ConfigMap | Sort::List | Sort::Nothing | Sort::Unrelated => {}
        }
    }

    /// A value of a `ConfigMap` is a file. Only its texts can be definitions.
    fn config_map(&mut self, document: &Document<'_>, spot: &Spot) {
        let data = follow(&document.value, &spot.path).and_then(|value| value.get("data"));
        for (key, value) in data.and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let path: Vec<_> = spot.path.iter().cloned().chain(keys(&["data", key])).collect();
            let map = match document.site(&path).root() {
                Some(node) => document.passage.map_of(node),
                None => Map::Whole { start: document.passage.base, end: document.passage.base },
            };
            let file = document.passage.file;
            let passage = Passage { text: text.as_bytes(), base: 0, map: &map, file };
            self.text(&passage, &spot.place.with(Part::Key(key.clone())), Depth::Wrapped);
        }
    }

    /// The last reading may be one that argocd-cmp-server would not see.
    fn tell_of_others(&mut self, definitions: usize) {
        if let Some(reading) = self.readings.last_mut().filter(|_| definitions == SECOND) {
            let text = "one of several definitions in this text";
            let diagnostic = Diagnostic::new(Code::Documents, text)
                .at(reading.named)
                .note("argocd-cmp-server reads the first document and ignores the rest");
            reading.diagnostics.push(diagnostic);
        }
    }

    fn push(&mut self, reading: Reading) {
        if self.readings.len() < MAX_DEFINITIONS {
            self.readings.push(reading);
        } else if !std::mem::replace(&mut self.is_full, true) {
            let text =
                format!("a file may hold {MAX_DEFINITIONS} definitions: the rest is ignored");
            let diagnostic = Diagnostic::new(Code::TooMany, text).at(reading.named);
            self.readings.push(Reading {
                definition: None,
                diagnostics: vec![diagnostic],
                ..reading
            });
        }
    }

    /// What to say of a file without definitions.
    fn nothing(&self, text: &[u8]) -> Reading {
        match self.documents {
            0 => empty(text),
            1 if !self.has_containers => read_first(text),
            _ => {
                let message = format!("there is no {KIND} in this file");
                let help = "a definition says `kind: ConfigManagementPlugin`";
                let region = File(text).region(0, usize::MAX);
                faulty(Diagnostic::new(Code::NoPlugin, message).at(Some(region)).help(help))
            }
        }
    }
}

impl<'d> Document<'d> {
    fn new(passage: &'d Passage<'d>) -> Result<Self, InvalidManifest> {
        let value = manifest::value(passage.text)?;
        Ok(Self { passage, value, tree: OnceCell::new() })
    }

    fn site<'s>(&'s self, prefix: &'s [Step]) -> Site<'s> {
        // It was converted, so it can be shown, unless it is too large for that.
        let tree = self.tree.get_or_init(|| cmp_yaml::tree(self.passage.text).ok().flatten());
        Site { passage: self.passage, tree: tree.as_ref(), prefix }
    }

    /// Judges a value of this document as a definition.
    fn judged(&self, place: Place, path: &[Step], value: &Value) -> Reading {
        let site = self.site(path);
        let Judgement { definition, faults, oddities, value } = manifest::judge(value);
        // Of another thing there is nothing else to say.
        let foreign = faults.iter().find(|fault| is_foreign(fault, faults.len()));
        let (faults, oddities) = match foreign {
            Some(fault) => (std::slice::from_ref(fault), &[][..]),
            None => (&faults[..], &oddities[..]),
        };
        let faults = faults.iter().map(|fault| diagnose::fault(fault, &site));
        let oddities = oddities.iter().filter_map(|finding| diagnose::oddity(finding, &site));
        let mut diagnostics: Vec<_> = faults.chain(oddities).collect();
        if let Some(definition) = &definition {
            diagnostics.extend(lint(definition, &value, &site));
        }
        diagnostics.sort_by_key(|diagnostic| diagnostic.region);
        let named = site.value(&keys(&["metadata", "name"]).collect::<Vec<_>>());
        let demand = ["spec", "sandbox", "minimumIsolation"];
        let demanding = site.value(&keys(&demand).collect::<Vec<_>>());
        Reading { place, definition, named, demanding, diagnostics }
    }
}

/// Whether it is not even meant as a definition.
fn is_foreign(fault: &InvalidManifest, faults: usize) -> bool {
    match fault {
        // Neither a kind, nor a name, nor a command.
        InvalidManifest::Kind { found } if found.is_empty() => faults >= 3,
        InvalidManifest::Kind { found } => nearest(found, [KIND]).is_none(),
        InvalidManifest::Yaml(_)
        | InvalidManifest::Json(_)
        | InvalidManifest::Printed(_)
        | InvalidManifest::Type { .. }
        | InvalidManifest::NoName
        | InvalidManifest::NoGenerate
        | InvalidManifest::Unknown { .. }
        | InvalidManifest::Value { .. }
        | InvalidManifest::Name(_)
        | InvalidManifest::Pattern(_) => false,
    }
}

fn broken(fault: &InvalidManifest, passage: &Passage<'_>, place: Place) -> Reading {
    let site = Site { passage, tree: None, prefix: &[] };
    let diagnostic = diagnose::fault(fault, &site);
    let diagnostic = match diagnostic.region {
        Some(_) => diagnostic,
        None => diagnostic.at(Some(passage.region(0, passage.text.len()))),
    };
    Reading { place, ..faulty(diagnostic) }
}

fn empty(text: &[u8]) -> Reading {
    let message = "there is nothing in this file: metadata.name should be non-empty";
    let region = File(text).region(0, usize::MAX);
    faulty(Diagnostic::new(Code::Empty, message).at(Some(region)))
}

fn faulty(diagnostic: Diagnostic) -> Reading {
    let place = Place::default().with(Part::Document(1));
    Reading::refused(place, diagnostic)
}

/// The items of a list, and the way to them.
fn items(list: &Value) -> (Vec<Step>, &[Value]) {
    match (list, list.get("items")) {
        (Value::Array(items), _) => (Vec::new(), items),
        (_, Some(Value::Array(items))) => (keys(&["items"]).collect(), items),
        _ => (Vec::new(), &[]),
    }
}

fn follow<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn keys<'k>(path: &'k [&'k str]) -> impl Iterator<Item = Step> + 'k {
    path.iter().map(|key| Step::Key((*key).to_owned()))
}
