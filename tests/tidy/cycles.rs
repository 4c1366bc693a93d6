//! Circles of modules that refer to one another.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// References between top-level modules, each with a file where it stands.
pub(crate) struct References(BTreeMap<(String, String), String>);

impl References {
    /// Collects them; the crate's root may refer to everything.
    pub(crate) fn between(sources: &[Source]) -> Self {
        let tops: BTreeSet<_> = sources.iter().map(Source::top).collect();
        let mut found = BTreeMap::new();
        for source in sources.iter().filter(|source| !source.top().is_empty()) {
            let named = source.mentions.modules().filter_map(|path| path.first());
            for name in named.filter(|name| *name != source.top() && tops.contains(name.as_str())) {
                let edge = (source.top().to_owned(), name.clone());
                found.entry(edge).or_insert_with(|| source.file.clone());
            }
        }
        Self(found)
    }

    /// References that are part of a circle, in words.
    pub(crate) fn circular(&self) -> Vec<String> {
        let part = |((from, to), file): (&(String, String), &String)| {
            self.leads(to, from).then(|| format!("{from} refers to {to} ({file}), and back"))
        };
        self.0.iter().filter_map(part).collect()
    }

    /// Tells if `from` refers to `to`, directly or through others.
    pub(crate) fn leads(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                let edges = self.0.keys().filter(|(origin, _)| origin == at);
                next.extend(edges.map(|(_, target)| target.as_str()));
            }
        }
        false
    }
}
