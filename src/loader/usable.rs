//! Plugins whose requests fail because a program is missing.

use std::collections::BTreeMap;

use bytes::Bytes;
use tracing::{error, info};

use super::subject::Subject;
use crate::{
    plugin::{Catalog, PluginName},
    programs,
};

/// The reasons why requests of plugins fail.
pub(super) type Unusable = BTreeMap<PluginName, Vec<String>>;

/// Looks for the programs of plugins.
#[derive(Debug)]
pub(super) struct Usability {
    /// The `PATH` of commands.
    search: Bytes,
    /// The last result, so that each change is logged once.
    known: Unusable,
}

impl Usability {
    pub(super) fn new(search: Bytes) -> Self {
        Self { search, known: Unusable::default() }
    }

    /// Looks for all programs. A program can appear or disappear without a change of
    /// a definition, so this is repeated at each read.
    pub(super) fn examine(&mut self, catalog: &Catalog, subject: &Subject) -> Unusable {
        let found: Unusable = catalog
            .iter()
            .filter_map(|plugin| {
                let missing = plugin.commands().filter_map(|(key, line)| {
                    subject.set(format_args!("plugin {}: {key}: {}", plugin.name, line.program()));
                    programs::of_command(key, line, &self.search)
                });
                let text = |one: programs::MissingProgram| {
                    format!("{one}, and every request that needs it fails: {}", one.remedy())
                };
                let reasons: Vec<_> = missing.map(text).collect();
                (!reasons.is_empty()).then(|| (plugin.name.clone(), reasons))
            })
            .collect();
        self.log(&found, catalog);
        self.known = found.clone();
        found
    }

    fn log(&self, found: &Unusable, catalog: &Catalog) {
        for (plugin, reasons) in
            found.iter().filter(|(name, now)| self.known.get(name) != Some(now))
        {
            error!(%plugin, error = reasons.join("; "), "a plugin is served but not up: a program cannot run");
        }
        let is_healed =
            |name: &&PluginName| !found.contains_key(name) && catalog.get(name).is_some();
        for plugin in self.known.keys().filter(is_healed) {
            info!(%plugin, "a plugin is up again: its programs can run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::catalog_of;

    #[test]
    fn a_missing_program_is_named_before_what_follows() {
        let found =
            Usability::new("/no/such".into()).examine(&catalog_of(&["a"]), &Subject::default());
        let [reasons] = &found.into_values().collect::<Vec<_>>()[..] else { panic!("one plugin") };
        let (reason, _) =
            reasons[0].split_once(", and every request that needs it fails: put ").unwrap();
        assert!(reason.starts_with("spec.generate.command: `"), "{reason}");
    }
}
