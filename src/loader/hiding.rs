//! Logs paths that the sandbox hides from plugins.

use std::path::PathBuf;

use tracing::{info, warn};

use crate::{
    event::TOLD,
    hidden::{HiddenPath, Watched},
    plugin::Catalog,
};

/// Looks for hidden paths.
#[derive(Debug, Default)]
pub(super) struct Hiding {
    /// `None` if nothing is looked for.
    watched: Option<Watched>,
    /// The result of the last look, so that each path is logged once.
    known: Vec<HiddenPath>,
    /// Name of the plugin that has the Secrets of the container, and its Secrets.
    endowed: Option<(String, Vec<PathBuf>)>,
}

impl Hiding {
    pub(super) fn new(watched: Watched) -> Self {
        Self { watched: Some(watched), ..Self::default() }
    }

    /// Gives the Secrets of the container to the only plugin, and logs when that
    /// begins and ends. `defined` also counts definitions that are invalid.
    pub(super) fn endow(&mut self, catalog: Catalog, defined: usize) -> Catalog {
        let Some(watched) = &self.watched else { return catalog };
        let catalog = watched.endow(catalog, defined);
        let owner = catalog.iter().find(|plugin| !plugin.sandbox.secrets.is_empty());
        let endowed = owner.map(|owner| (owner.name.to_string(), owner.sandbox.secrets.clone()));
        if endowed != self.endowed {
            if let Some((plugin, secrets)) = &endowed {
                info!(plugin, ?secrets, "the only plugin may read the Secrets of the container");
            } else {
                warn!(
                    defined,
                    "plugins may read Secrets of the container only if they name them in \
                     spec.sandbox.read, because there is no longer exactly one definition"
                );
            }
        }
        self.endowed = endowed;
        catalog
    }

    /// Finds the paths that are hidden from plugins. Files in a volume appear and
    /// disappear, so this is repeated at each read.
    pub(super) fn examine(&mut self, catalog: &Catalog) -> Vec<HiddenPath> {
        let Some(watched) = &self.watched else { return Vec::new() };
        let found = watched.hidden(catalog);
        for hidden in found.iter().filter(|hidden| !self.known.contains(hidden)) {
            let HiddenPath { code, message, help, .. } = hidden;
            // `render` shows a hint if the path is missed.
            if hidden.is_warning() {
                warn!(target: TOLD, code, error = message, help, "a plugin may need a path that it may not read");
            } else {
                info!(target: TOLD, code, note = message, help, "plugins may not read a path");
            }
        }
        self.known.clone_from(&found);
        found
    }
}
