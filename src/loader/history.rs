//! The source and load time of each definition.

use std::{collections::BTreeMap, time::SystemTime};

use sha2::{Digest as _, Sha256};

use super::{ledger::Ledger, snapshot::Source};
use crate::{
    plugin::Catalog,
    state::{Digest, Origin, State},
};

/// Digests of the last good text of each file.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, Digest>);

/// Digests of the texts that were read, by file; `None` for unreadable files.
pub(super) type Digests = BTreeMap<String, Option<Digest>>;

/// The digests of files.
pub(super) fn digests(sources: &[Source]) -> Digests {
    let digest = |text: &Vec<u8>| Digest(Sha256::digest(text).into());
    let of = |source: &Source| source.text.as_ref().ok().map(digest);
    sources.iter().map(|source| (source.name.clone(), of(source))).collect()
}

impl History {
    /// Stores the digests of valid files. Files in `bad` keep the digest of their
    /// last good text.
    pub(super) fn record(&mut self, read: &Digests, bad: &[&str]) {
        let mut good = BTreeMap::new();
        for (file, digest) in read {
            let is_bad = bad.contains(&file.as_str());
            let last_good = if is_bad { self.0.get(file).copied() } else { *digest };
            good.extend(last_good.map(|digest| (file.clone(), digest)));
        }
        self.0 = good;
    }

    /// Sets the desired definitions and their sources. An unchanged definition
    /// keeps its load time.
    pub(super) fn settle(&self, state: &mut State, desired: Catalog, ledger: &Ledger) {
        if state.desired != desired {
            state.generation += 1;
        }
        let mut before = std::mem::take(&mut state.origins);
        for definition in desired.iter() {
            let name = &definition.name;
            let Some((file, place)) = ledger.owner(name) else { continue };
            let digest = self.0.get(file).copied().unwrap_or_default();
            let is_same = state.desired.get(name) == Some(definition);
            let known = before.remove(name).filter(|_| is_same);
            let (generation, loaded_at) = known
                .map_or((state.generation, SystemTime::now()), |o| (o.generation, o.loaded_at));
            let (file, place, is_stale) = (file.to_owned(), place.clone(), ledger.is_stale(name));
            let origin = Origin { file, place, is_stale, generation, loaded_at, digest };
            state.origins.insert(name.clone(), origin);
        }
        state.desired = desired;
        state.digest = self.digest();
    }

    /// Digest of all valid texts. It is equal on all machines with the same texts.
    fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for (file, digest) in &self.0 {
            hash.update((file.len() as u64).to_le_bytes());
            hash.update(file);
            hash.update(digest.0);
        }
        Digest(hash.finalize().into())
    }
}
