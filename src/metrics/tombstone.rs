//! Hides the series of removed plugins.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time for which a removed plugin's series are still shown, so that some more
/// scrapes read its last requests.
const SHOWN: Duration = Duration::from_mins(5);

/// Names of removed plugins, and the times of removal. The recorder cannot
/// delete series, and a removed plugin would look like one that is down. Cheap
/// to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Tombstones {
    /// Adds a removed plugin.
    pub(super) fn add(&self, plugin: &str, now: Instant) {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.insert(label(plugin), now);
    }

    /// True for a removed plugin.
    pub(super) fn has(&self, plugin: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&label(plugin))
    }

    /// Forgets a plugin that is served again.
    pub(super) fn remove(&self, plugin: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&label(plugin));
    }

    /// The page without the series of plugins that were removed long ago.
    pub(super) fn hide(&self, page: String, now: Instant) -> String {
        let gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= SHOWN;
        let hidden: Vec<_> =
            gone.iter().filter(|(_, since)| is_old(since)).map(|(label, _)| label).collect();
        if hidden.is_empty() {
            return page;
        }
        let is_shown = |line: &&str| !hidden.iter().any(|label| line.contains(label.as_str()));
        page.split_inclusive('\n').filter(is_shown).collect()
    }
}

/// A plugin's label in the format of the page.
fn label(plugin: &str) -> String {
    let escaped = plugin.replace('\\', r"\\").replace('"', r#"\""#);
    format!("plugin=\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# HELP up\nup{plugin=\"a\"} 1\nup{plugin=\"aa\"} 1\nup{plugin=\"q\\\"q\"} 0\n";

    #[test]
    fn a_removed_plugin_is_shown_for_five_minutes() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("a", start);
        assert_eq!(gone.hide(PAGE.into(), start), PAGE);
        let later = gone.hide(PAGE.into(), start + SHOWN);
        assert!(!later.contains("\"a\"") && later.contains("\"aa\""), "{later}");
    }

    #[test]
    fn a_plugin_that_returns_is_shown() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("a", start);
        gone.remove("a");
        assert_eq!(gone.hide(PAGE.into(), start + SHOWN), PAGE);
    }

    #[test]
    fn names_are_compared_in_their_escaped_form() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("q\"q", start);
        assert!(!gone.hide(PAGE.into(), start + SHOWN).contains('q'));
    }
}
