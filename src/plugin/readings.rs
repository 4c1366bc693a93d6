//! Reads all definitions of a file.
//!
//! argocd-cmp-server reads only the first document of one file. Here, a file can
//! have several documents. Each can be a definition, a `ConfigMap` manifest with
//! definitions in its data, or a list of these, as `kubectl` and `kustomize`
//! print them. Other content is skipped, if it is valid YAML.

mod reading;
mod scripts;
#[cfg(test)]
mod tests;
mod value_kind;

use std::cell::OnceCell;

use serde_json::Value;

pub use self::reading::Reading;
use self::{
    scripts::Scripts,
    value_kind::{ValueKind, mentions_kind},
};
use super::{
    Code, Diagnostic, InvalidManifest, Part, Place, PluginDefinition, diagnose, document,
    lint::lint,
    locator::Locator,
    manifest::{self, Checked, KIND, Step},
    passage::{File, Map, Passage},
    suggestion::nearest,
};

/// Most definitions in one file. Argo CD asks the plugins one after the other,
/// so more would make every discovery slow.
pub const MAX_DEFINITIONS: usize = 100;

/// Number of the first definition that argocd-cmp-server would not read.
const SECOND: usize = 2;

/// The key of argocd-cm that had a list of plugins before definitions were files.
const OLD_LIST: &str = "configManagementPlugins:";

/// Reads every definition of a file. Returns at least one reading, because a
/// file without definitions is an error.
#[must_use]
pub fn read_all(text: &[u8]) -> Vec<Reading> {
    let text = &*cmp_yaml::utf8(text);
    let file = File(text);
    let map = Map::identity();
    let mut readings = Readings::default();
    let whole = Passage { text, base: 0, map: &map, file };
    readings.text(&whole, &Place::default(), Depth::File);
    if !readings.has_definition {
        return vec![readings.no_definition(text)];
    }
    readings.scripts.warn(&mut readings.found);
    readings.found.extend(readings.doubtful);
    readings.found
}

/// Reads only the first document of a file, as argocd-cmp-server does.
#[must_use]
pub fn read_first(text: &[u8]) -> Reading {
    let text = &*cmp_yaml::utf8(text);
    let map = Map::identity();
    let passage = Passage { text, base: 0, map: &map, file: File(text) };
    let place = Place::default().with(Part::Document(1));
    match Document::new(&passage) {
        Ok(document) => {
            let reading = document.read(place, &[], &document.value);
            match document::split(text).len() {
                0 => empty(text),
                _ => reading,
            }
        }
        Err(fault) => broken(&fault, &passage, place),
    }
}

/// Level at which a document is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// In the file.
    File,
    /// In a `ConfigMap`. A `ConfigMap` inside a `ConfigMap` is not read.
    Wrapped,
}

/// A value inside a document.
struct Spot {
    path: Vec<Step>,
    place: Place,
}

/// Readings of a file, while it is read.
#[derive(Default)]
struct Readings {
    found: Vec<Reading>,
    /// Parts that were perhaps definitions before the last edit.
    doubtful: Vec<Reading>,
    scripts: Scripts,
    /// True if something in the file is meant as a definition.
    has_definition: bool,
    /// Number of documents in the file, without empty ones.
    documents: usize,
    /// True if the file has a `ConfigMap` or a list.
    has_containers: bool,
    is_full: bool,
}

/// A document that is valid YAML.
struct Document<'d> {
    passage: &'d Passage<'d>,
    value: Value,
    /// Built when the first region is needed.
    tree: OnceCell<Option<cmp_yaml::Tree<'d>>>,
}

impl Readings {
    fn text(&mut self, passage: &Passage<'_>, place: &Place, depth: Depth) {
        let documents = document::split(passage.text);
        let last = documents.len();
        let is_ours = depth == Depth::File || mentions_kind(passage.text);
        let mut definitions = 0;
        for (number, range) in (1..).zip(documents) {
            if self.is_full {
                break;
            }
            let Some(text) = passage.text.get(range.clone()) else { continue };
            let passage = Passage { text, base: passage.base + range.start, ..passage.clone() };
            let here = place.with(Part::Document(number));
            let rest = place.rest_from(&here);
            let known = self.found.len();
            match Document::new(&passage) {
                Ok(document) => {
                    self.document(&document, &here, depth);
                    let value_kind = ValueKind::of(&document.value);
                    if value_kind == ValueKind::Plugin {
                        definitions += 1;
                        self.note_several(definitions);
                    } else if value_kind == ValueKind::Unfinished
                        && depth == Depth::File
                        && number == last
                    {
                        self.doubt(document.read(rest, &[], &document.value));
                    }
                }
                Err(fault) => {
                    self.documents += 1;
                    self.has_definition |= mentions_kind(text);
                    let reading =
                        broken(&fault, &passage, if number == last { rest } else { here });
                    if is_ours { self.push(reading) } else { self.doubt(reading) }
                }
            }
            if number == last {
                self.may_be_cut_off(known, place);
            }
        }
    }

    fn document(&mut self, document: &Document<'_>, place: &Place, depth: Depth) {
        let value_kind = ValueKind::of(&document.value);
        if depth == Depth::File && !matches!(value_kind, ValueKind::Nothing) {
            self.documents += 1;
        }
        if !matches!(value_kind, ValueKind::List) {
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
        let Some(value) = follow(&document.value, &spot.path).filter(|_| !self.is_full) else {
            return;
        };
        match ValueKind::of(value) {
            ValueKind::Plugin => {
                self.has_definition = true;
                self.push(document.read(spot.place, &spot.path, value));
            }
            ValueKind::ConfigMap if depth == Depth::File => {
                self.has_containers = true;
                self.config_map(document, &spot);
            }
            ValueKind::ConfigMap
            | ValueKind::List
            | ValueKind::Nothing
            | ValueKind::Unfinished
            | ValueKind::Unrelated => {}
        }
    }

    /// Reads each string in the `data` of a `ConfigMap` as a file.
    fn config_map(&mut self, document: &Document<'_>, spot: &Spot) {
        let data = follow(&document.value, &spot.path).and_then(|value| value.get("data"));
        let locator = document.locator(&spot.path);
        let nodes = locator.values(&Step::path("data"));
        for (key, value) in data.and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str().filter(|_| !self.is_full) else { continue };
            let map = match nodes.get(key.as_str()) {
                Some(node) => document.passage.map_of(*node),
                None => Map::Whole { start: document.passage.base, end: document.passage.base },
            };
            let file = document.passage.file;
            let passage = Passage { text: text.as_bytes(), base: 0, map: &map, file };
            self.scripts.add(key, text, &passage);
            self.text(&passage, &spot.place.with(Part::Key(key.clone())), Depth::Wrapped);
        }
    }

    /// Adds a note to the second definition, which argocd-cmp-server would not read.
    fn note_several(&mut self, definitions: usize) {
        if let Some(reading) = self.found.last_mut().filter(|_| definitions == SECOND) {
            let text = "one of several definitions in this file";
            let diagnostic = Diagnostic::new(Code::Documents, text)
                .at(reading.name_region)
                .note("argocd-cmp-server reads the first document and ignores the rest")
                .help(
                    "put each into a file or ConfigMap key of its own if argocd-cmp-server may \
                     read them too",
                );
            reading.diagnostics.push(diagnostic);
        }
    }

    /// The text at `place` may be cut off in its last document, to which the readings from
    /// `known` on belong. If the last of them in the text is invalid, it includes the rest.
    fn may_be_cut_off(&mut self, known: usize, place: &Place) {
        let added = self.found.iter_mut().skip(known);
        // The keys of a `ConfigMap` are not read in the order of the text.
        let region = |reading: &&mut Reading| {
            let first = reading.diagnostics.first().and_then(|diagnostic| diagnostic.region);
            reading.name_region.max(first)
        };
        if let Some(last) = added.max_by_key(region).filter(|last| last.definition.is_none()) {
            last.place = place.rest_from(&last.place);
        }
    }

    /// Adds a part that may never have been a definition, such as a script.
    fn doubt(&mut self, reading: Reading) {
        if self.doubtful.len() < MAX_DEFINITIONS {
            self.doubtful.push(Reading { is_doubtful: true, ..reading });
        }
    }

    fn push(&mut self, reading: Reading) {
        if self.found.len() < MAX_DEFINITIONS {
            self.found.push(reading);
        } else if !std::mem::replace(&mut self.is_full, true) {
            let text =
                format!("more than {MAX_DEFINITIONS} definitions in one file: the rest is ignored");
            let diagnostic = Diagnostic::new(Code::TooMany, text).at(reading.name_region);
            self.found.push(Reading { definition: None, diagnostics: vec![diagnostic], ..reading });
        }
    }

    /// The reading of a file without definitions. An accident causes this, such as
    /// an error page in its place, so it concerns all definitions of the file.
    fn no_definition(self, text: &[u8]) -> Reading {
        match self.documents {
            0 => empty(text),
            1 if !self.has_containers => Reading { place: Place::default(), ..read_first(text) },
            _ => {
                let message = format!("no {KIND} in this file");
                let old = std::str::from_utf8(text).ok().and_then(|text| text.find(OLD_LIST));
                let help = match old {
                    Some(_) => {
                        "Argo CD 2.8 and later ignore this key of argocd-cm: make a definition of each item, \
                                with `kind: ConfigManagementPlugin`, its name in metadata and its commands in spec"
                    }
                    None => {
                        "add a definition with `kind: ConfigManagementPlugin`, or give another file"
                    }
                };
                let region = File(text).region(old.unwrap_or(0), usize::MAX);
                let none = Diagnostic::new(Code::NoDefinition, message).at(Some(region)).help(help);
                let mut reading = Reading::refused(Place::default(), none);
                let broken = self.found.into_iter().next();
                reading
                    .diagnostics
                    .extend(broken.into_iter().flat_map(|broken| broken.diagnostics));
                reading
            }
        }
    }
}

impl<'d> Document<'d> {
    fn new(passage: &'d Passage<'d>) -> Result<Self, InvalidManifest> {
        let value = manifest::value(passage.text)?;
        Ok(Self { passage, value, tree: OnceCell::new() })
    }

    fn locator<'s>(&'s self, prefix: &'s [Step]) -> Locator<'s> {
        // The text is valid YAML, so this fails only if it is too large for a tree.
        let tree = self.tree.get_or_init(|| cmp_yaml::tree(self.passage.text).ok().flatten());
        Locator { passage: self.passage, tree: tree.as_ref(), prefix }
    }

    /// Reads a value of this document as a definition.
    fn read(&self, place: Place, path: &[Step], value: &Value) -> Reading {
        let locator = self.locator(path);
        let Checked { definition, faults, warnings, value } = manifest::check(value);
        // If the value is not meant as a definition, other faults do not matter.
        let foreign = faults.iter().find(|fault| is_foreign(fault, faults.len()));
        let (faults, warnings) = match foreign {
            Some(fault) => (std::slice::from_ref(fault), &[][..]),
            None => (&faults[..], &warnings[..]),
        };
        let faults = faults.iter().map(|fault| diagnose::fault(fault, &locator));
        let warnings = warnings.iter().filter_map(|finding| diagnose::warning(finding, &locator));
        let mut diagnostics: Vec<_> = faults.chain(warnings).collect();
        if let Some(definition) = &definition {
            diagnostics.extend(lint(definition, &value, &locator));
        }
        diagnostics.sort_by_key(|diagnostic| diagnostic.region);
        let name_region = locator.value(&Step::path("metadata.name"));
        let isolation_region = locator.value(&Step::path("spec.sandbox.minimumIsolation"));
        let program = |key: &'static str| Some((key, locator.value(&Step::item(key, 0))?));
        let programs = PluginDefinition::COMMANDS.into_iter().filter_map(program);
        let program_regions = programs.collect();
        Reading {
            place,
            definition,
            name_region,
            isolation_region,
            program_regions,
            diagnostics,
            is_doubtful: false,
        }
    }
}

/// True if the value is not meant as a definition.
fn is_foreign(fault: &InvalidManifest, faults: usize) -> bool {
    match fault {
        // It has neither a kind, nor a name, nor a command.
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
        | InvalidManifest::Nul { .. }
        | InvalidManifest::Pattern(_) => false,
    }
}

fn broken(fault: &InvalidManifest, passage: &Passage<'_>, place: Place) -> Reading {
    let locator = Locator { passage, tree: None, prefix: &[] };
    let diagnostic = diagnose::fault(fault, &locator);
    let diagnostic = match diagnostic.region {
        Some(_) => diagnostic,
        None => diagnostic.at(Some(passage.region(0, passage.text.len()))),
    };
    Reading::refused(place, diagnostic)
}

fn empty(text: &[u8]) -> Reading {
    let message = "the file is empty: metadata.name should be non-empty";
    let region = File(text).region(0, usize::MAX);
    let help = "write a definition into the file, or remove it";
    let diagnostic = Diagnostic::new(Code::Empty, message).at(Some(region)).help(help);
    Reading::refused(Place::default(), diagnostic)
}

/// The items of a list, and the path to them.
fn items(list: &Value) -> (Vec<Step>, &[Value]) {
    match (list, list.get("items")) {
        (Value::Array(items), _) => (Vec::new(), items),
        (_, Some(Value::Array(items))) => (Step::path("items"), items),
        _ => (Vec::new(), &[]),
    }
}

fn follow<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}
