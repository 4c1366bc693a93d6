//! Which texts were good, and since when.

use std::{collections::BTreeMap, time::SystemTime};

use sha2::{Digest as _, Sha256};

use super::{
    findings::{Digest, Origin},
    snapshot::Source,
};
use crate::plugin::{Catalog, Place, PluginName};

/// What was read of each file, and what came of it.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Of the last good text of each file.
    good: BTreeMap<String, Digest>,
    origins: BTreeMap<PluginName, Origin>,
    /// Counts changed sets.
    pub(super) generation: u64,
}

/// Digests of what was read, by file; `None` where there is no text.
pub(super) type Digests = BTreeMap<String, Option<Digest>>;

/// Digests of files as they were read.
pub(super) fn digests(sources: &[Source]) -> Digests {
    let digest = |text: &Vec<u8>| Digest(Sha256::digest(text).into());
    let of = |source: &Source| source.text.as_ref().ok().map(digest);
    sources.iter().map(|source| (source.name.clone(), of(source))).collect()
}

impl History {
    /// Files that are not `bad` hold what they were read with; of those that
    /// are, the text before that stands.
    pub(super) fn record(&mut self, read: &Digests, bad: &[&str]) {
        let mut good = BTreeMap::new();
        for (file, digest) in read {
            let is_bad = bad.contains(&file.as_str());
            let stands = if is_bad { self.good.get(file).copied() } else { *digest };
            good.extend(stands.map(|digest| (file.clone(), digest)));
        }
        self.good = good;
    }

    /// Notes where each plugin of a changed set is from. One whose definition
    /// is what it was keeps its date.
    pub(super) fn settle<'o>(
        &mut self,
        before: &Catalog,
        after: &Catalog,
        owner: impl Fn(&PluginName) -> Option<(&'o str, &'o Place)>,
    ) {
        if before != after {
            self.generation += 1;
        }
        let mut origins = BTreeMap::new();
        for definition in after.iter() {
            let name = &definition.name;
            let Some((file, place)) = owner(name) else { continue };
            let (file, place) = (file.to_owned(), place.clone());
            let is_same = before.get(name) == Some(definition);
            let digest = self.good.get(&file).copied().unwrap_or_default();
            let origin = match self.origins.remove(name) {
                Some(known) if is_same => Origin { file, place, digest, ..known },
                _ => Origin {
                    file,
                    place,
                    digest,
                    generation: self.generation,
                    loaded_at: SystemTime::now(),
                },
            };
            origins.insert(name.clone(), origin);
        }
        self.origins = origins;
    }

    /// Where each plugin is from.
    pub(super) fn origins(&self) -> &BTreeMap<PluginName, Origin> {
        &self.origins
    }

    /// Of all good texts together: the same wherever the same is served.
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for (file, digest) in &self.good {
            hash.update((file.len() as u64).to_le_bytes());
            hash.update(file);
            hash.update(digest.0);
        }
        Digest(hash.finalize().into())
    }
}
