//! The rule that the Secrets of the container belong to the only plugin.

use std::{path::PathBuf, sync::Arc};

use tracing::{info, warn};

use super::stamp::SETTLED;
use crate::{hidden::Watched, plugin::Catalog};

/// Name of the plugin that has the Secrets, and the Secrets.
type Owner = (String, Vec<PathBuf>);

/// Gives the Secrets of the container to the only plugin.
#[derive(Debug, Default)]
pub(super) struct OnlyPlugin {
    /// `None` if the rule is not in use.
    watched: Option<Arc<Watched>>,
    owner: Option<Owner>,
    /// True after a second definition, until this process ends.
    had_more: bool,
    /// True if the only plugin has no Secrets yet, because directories may be filled.
    is_waiting: bool,
}

impl OnlyPlugin {
    pub(super) fn new(watched: Arc<Watched>) -> Self {
        Self { watched: Some(watched), ..Self::default() }
    }

    /// Gives the Secrets of the container to the only plugin, and logs when that
    /// begins and ends. `defined` also counts definitions that are invalid.
    ///
    /// While files are moved or replaced, one of several definitions can be alone for
    /// a moment. So this ends for ever with a second definition, and begins only once
    /// the directories are complete.
    pub(super) fn endow(
        &mut self,
        catalog: Catalog,
        defined: usize,
        is_complete: impl FnOnce() -> bool,
    ) -> Catalog {
        self.count(defined.max(catalog.len()));
        let Some(watched) = &self.watched else { return catalog };
        let endowed = (!self.had_more).then(|| watched.endow(catalog.clone(), defined));
        let owner = endowed.iter().flat_map(Catalog::iter).find_map(|plugin| {
            let secrets = &plugin.sandbox.secrets;
            (!secrets.is_empty()).then(|| (plugin.name.to_string(), secrets.clone()))
        });
        let is_waiting = owner.is_some() && owner != self.owner && !is_complete();
        if is_waiting && !self.is_waiting {
            let seconds = SETTLED.as_secs();
            info!(
                seconds,
                "the only plugin may read the Secrets of the container as soon as the directory \
                 of definitions has not changed for some seconds"
            );
        }
        self.is_waiting = is_waiting;
        self.hand_over(owner.filter(|_| !is_waiting), defined);
        if self.owner.is_some() { endowed.unwrap_or(catalog) } else { catalog }
    }

    /// Takes note of the number of definitions, valid or not.
    pub(super) fn count(&mut self, defined: usize) {
        self.had_more |= defined > 1;
    }

    fn hand_over(&mut self, owner: Option<Owner>, defined: usize) {
        if owner == self.owner {
            return;
        }
        if let Some((plugin, secrets)) = &owner {
            info!(
                plugin,
                secrets = listed(secrets),
                "the only plugin may read the Secrets of the container"
            );
        } else {
            let until_restart = self.had_more;
            warn!(
                defined,
                until_restart,
                "plugins may read Secrets of the container only if they name them in \
                 spec.sandbox.read, because there is no longer exactly one definition; after a \
                 second one, this stays so until a restart"
            );
        }
        self.owner = owner;
    }

    /// True if the only plugin gets the Secrets once the directories are complete.
    pub(super) fn waits(&self) -> bool {
        self.is_waiting
    }
}

/// Paths in one field of the log.
fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use cmp_sandbox::Readable;

    use super::*;
    use crate::{plugin::catalog_of, request::Reach};

    /// Names of the plugins that get the Secrets after each step: names of plugins,
    /// definitions, and true if the directories are complete.
    fn endowed(steps: &[(&[&str], usize, bool)]) -> Vec<String> {
        let readable = Some(Readable::fixed(&[], &["/secret"]));
        let reach = Arc::new(Reach { readable, filters_ports: true, ..Reach::default() });
        let watched = Arc::new(Watched::new(reach, Vec::new(), &[]));
        let mut only = OnlyPlugin::new(watched);
        let step = |(names, defined, is_complete): &(&[&str], usize, bool)| {
            let catalog = only.endow(catalog_of(names), *defined, || *is_complete);
            let owners = catalog.iter().filter(|plugin| !plugin.sandbox.secrets.is_empty());
            owners.map(|plugin| plugin.name.to_string()).collect()
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn paths_are_logged_as_operators_write_them() {
        assert_eq!(listed(&["/a".into(), "/b c".into()]), "/a, /b c");
    }

    #[test]
    fn after_a_second_definition_no_plugin_is_the_only_one() {
        let alone = (&["a"][..], 1, true);
        for second in [(&["a", "b"][..], 2, true), (&["a"][..], 2, true)] {
            assert_eq!(endowed(&[alone, second, alone]), ["a", "", ""]);
            assert_eq!(endowed(&[second, alone]), ["", ""]);
        }
    }

    #[test]
    fn secrets_are_given_once_the_directories_are_complete() {
        let (early, complete) = ((&["a"][..], 1, false), (&["a"][..], 1, true));
        assert_eq!(endowed(&[early, complete, early]), ["", "a", "a"]);
        let other = (&["b"][..], 1, false);
        assert_eq!(endowed(&[complete, other, complete]), ["a", "", "a"]);
        assert_eq!(endowed(&[complete, (&[], 0, true), early]), ["a", "", ""]);
    }
}
