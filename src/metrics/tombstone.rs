//! Plugins that are gone, whose series must not be shown for ever.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long the series of a plugin are shown after it is gone: some scrapes,
/// so that its last requests are counted.
const SHOWN: Duration = Duration::from_mins(5);

/// Names of plugins that are gone, and since when. The recorder has no way to
/// forget a series, and a plugin that is up for nobody looks like one that is
/// down. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Tombstones {
    /// A plugin is gone.
    pub(super) fn add(&self, plugin: &str, now: Instant) {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.insert(label(plugin), now);
    }

    /// A plugin is there again.
    pub(super) fn remove(&self, plugin: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&label(plugin));
    }

    /// A page without the series of those that have been gone for long.
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

/// A plugin's label as the page has it.
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
    fn a_plugin_that_is_gone_is_shown_for_a_while() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("a", start);
        assert_eq!(gone.hide(PAGE.into(), start), PAGE);
        let later = gone.hide(PAGE.into(), start + SHOWN);
        assert!(!later.contains("\"a\"") && later.contains("\"aa\""), "{later}");
    }

    #[test]
    fn one_that_comes_back_is_shown() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("a", start);
        gone.remove("a");
        assert_eq!(gone.hide(PAGE.into(), start + SHOWN), PAGE);
    }

    #[test]
    fn names_are_compared_as_they_are_written() {
        let (gone, start) = (Tombstones::default(), Instant::now());
        gone.add("q\"q", start);
        assert!(!gone.hide(PAGE.into(), start + SHOWN).contains('q'));
    }
}
