//! Circles of modules that refer to one another.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// The modules that each module refers to, each with a file where the reference stands.
pub(crate) struct References(BTreeMap<String, BTreeMap<String, String>>);

impl References {
    /// Those between top-level modules; the crate's root may refer to everything.
    pub(crate) fn between_modules(sources: &[Source]) -> Self {
        let tops: BTreeSet<_> = sources.iter().map(Source::top).collect();
        Self::collect(sources, |source, path| {
            let (from, to) = (source.top(), path.first()?.as_str());
            let counts = !from.is_empty() && from != to && tops.contains(to);
            counts.then(|| (from.to_owned(), to.to_owned()))
        })
    }

    /// Those between files. A file may refer to those above it, which pass on the names of
    /// their other parts.
    pub(crate) fn between_files(sources: &[Source]) -> Self {
        let modules: BTreeSet<_> = sources.iter().map(|source| source.module.as_slice()).collect();
        Self::collect(sources, |source, path| {
            let mut prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
            let to = prefixes.find(|module| modules.contains(module))?;
            (!source.module.starts_with(to)).then(|| (source.module.join("/"), to.join("/")))
        })
    }

    fn collect(
        sources: &[Source],
        reference: impl Fn(&Source, &[String]) -> Option<(String, String)>,
    ) -> Self {
        let mut found = BTreeMap::<_, BTreeMap<_, _>>::new();
        for source in sources {
            for (from, to) in source.mentions.modules().filter_map(|path| reference(source, path)) {
                found.entry(from).or_default().entry(to).or_insert_with(|| source.file.clone());
            }
        }
        Self(found)
    }

    /// References that are part of a circle, in words.
    pub(crate) fn circular(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        let part = all.filter(|(from, (to, _))| self.leads(to, from));
        part.map(|(from, (to, file))| format!("{from} refers to {to} ({file}), and back")).collect()
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
                next.extend(
                    self.0.get(at).into_iter().flatten().map(|(target, _)| target.as_str()),
                );
            }
        }
        false
    }
}
