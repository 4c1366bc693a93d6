//! Logs paths that the sandbox hides from plugins.

use std::sync::Arc;

use tracing::{info, warn};

use crate::{
    event::TOLD,
    hidden::{HiddenPath, Watched},
    plugin::Catalog,
};

/// Looks for hidden paths.
#[derive(Debug)]
pub(super) struct Hiding {
    watched: Arc<Watched>,
    /// The result of the last look, so that each path is logged once.
    known: Vec<HiddenPath>,
}

impl Hiding {
    pub(super) fn new(watched: Arc<Watched>) -> Self {
        Self { watched, known: Vec::new() }
    }

    /// Finds the paths that are hidden from plugins. Files in a volume appear and
    /// disappear, so this is repeated at each read.
    pub(super) fn examine(&mut self, catalog: &Catalog) -> Vec<HiddenPath> {
        let found = self.watched.hidden(catalog);
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
