//! Logs paths that the sandbox hides from plugins.

use std::sync::Arc;

use tracing::{info, warn};

use super::subject::Subject;
use crate::{
    event::TOLD,
    hidden::{HiddenPath, Watched},
    plugin::Catalog,
};

/// Looks for hidden paths.
#[derive(Debug)]
pub(super) struct Hiding {
    watched: Arc<Watched>,
    /// The last result, so that each path is logged once.
    known: Vec<HiddenPath>,
}

impl Hiding {
    pub(super) fn new(watched: Arc<Watched>) -> Self {
        Self { watched, known: Vec::new() }
    }

    /// Finds the paths that are hidden from plugins. Files in a volume appear and
    /// disappear, so this is repeated at each read.
    pub(super) fn examine(&mut self, catalog: &Catalog, subject: &Subject) -> Vec<HiddenPath> {
        let found = self.watched.hidden(catalog, |path| subject.set(path.display()));
        for hidden in found.iter().filter(|hidden| !self.is_known(hidden)) {
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

    /// True if the path is known for all these plugins, or for all plugins.
    fn is_known(&self, hidden: &HiddenPath) -> bool {
        let HiddenPath { code, path, variable, plugins, message, .. } = hidden;
        self.known.iter().any(|known| {
            (&known.code, &known.path, &known.variable) == (code, path, variable)
                && (known.message == *message
                    || plugins.iter().all(|name| known.plugins.contains(name)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(path: &str, plugins: &[&str], message: &str) -> HiddenPath {
        HiddenPath {
            code: "CMP0313".to_owned(),
            path: path.to_owned(),
            variable: None,
            plugins: plugins.iter().map(|name| (*name).to_owned()).collect(),
            message: message.to_owned(),
            help: String::new(),
        }
    }

    #[test]
    fn other_plugins_do_not_make_a_path_new() {
        let watched = Arc::new(Watched::new(Arc::default(), Vec::new(), &[]));
        let known = vec![hidden("/a", &["p", "q"], "no plugin"), hidden("/b", &["p", "q"], "p, q")];
        let hiding = Hiding { watched, known };
        assert!(hiding.is_known(&hidden("/a", &["p", "q", "r"], "no plugin")));
        assert!(hiding.is_known(&hidden("/b", &["q"], "q")));
        assert!(!hiding.is_known(&hidden("/b", &["p", "q", "r"], "p, q, r")));
        assert!(!hiding.is_known(&hidden("/c", &["p", "q"], "no plugin")));
    }
}
