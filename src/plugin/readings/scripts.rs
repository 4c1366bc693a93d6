//! Scripts in the keys of `ConfigMap`s that the commands of definitions start.

use std::collections::BTreeMap;

use super::{MAX_DEFINITIONS, Reading};
use crate::plugin::{
    Diagnostic,
    lint::{file_names, fixed_path, shared_path},
    passage::Passage,
};

/// Beginning and usual ending of a script.
const BEGINNING: &str = "#!";
const ENDING: &str = ".sh";

/// Warnings about the scripts of a file, by their keys.
#[derive(Debug, Default)]
pub(super) struct Scripts(BTreeMap<String, Diagnostic>);

impl Scripts {
    /// Reads the text of a key, if it is a script.
    pub(super) fn add(&mut self, key: &str, text: &str, passage: &Passage<'_>) {
        let is_script = text.starts_with(BEGINNING) || key.ends_with(ENDING);
        if !is_script || self.0.len() >= MAX_DEFINITIONS {
            return;
        }
        if let Some((start, path)) = fixed_path(text) {
            let region = passage.region(start, start + path.len());
            let mut found = shared_path(path).at(Some(region));
            found.message = format!("{} in the script `{key}`", found.message);
            self.0.entry(key.to_owned()).or_insert(found);
        }
    }

    /// Warns of each script once, at the first definition that names its file.
    pub(super) fn warn(mut self, readings: &mut [Reading]) {
        for Reading { definition, diagnostics, .. } in readings {
            let Some(definition) = definition.as_ref().filter(|_| !self.0.is_empty()) else {
                continue;
            };
            let words = definition.commands().flat_map(|(_, command)| command.words());
            let names = words.flat_map(file_names);
            diagnostics.extend(names.filter_map(|name| self.0.remove(name)));
        }
    }
}
