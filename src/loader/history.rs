//! The source and load time of each definition.

use std::{collections::BTreeMap, time::SystemTime};

use sha2::{Digest as _, Sha256};

use super::{ledger::Ledger, snapshot::Source};
use crate::{
    plugin::{Catalog, Place, PluginName},
    state::{Digest, Origin, State},
};

/// Digests of the texts that were read, by file; `None` for unreadable files.
pub(super) type Digests = BTreeMap<String, Option<Digest>>;

/// The digests of files.
pub(super) fn digests(sources: &[Source]) -> Digests {
    let of = |source: &Source| source.text.as_ref().ok().map(|text| digest_of(text));
    sources.iter().map(|source| (source.name.clone(), of(source))).collect()
}

/// The digest of a text.
pub(super) fn digest_of(text: &[u8]) -> Digest {
    Digest(Sha256::digest(text).into())
}

/// Sets the desired definitions and their sources; `now` gives the digest of the text that is
/// in a file. An unchanged definition keeps its load time, and one whose text is not valid now
/// keeps the digest of its last good text.
pub(super) fn settle(
    state: &mut State,
    desired: Catalog,
    ledger: &Ledger,
    now: impl Fn(&str, &Place) -> Option<Digest>,
) {
    if state.desired != desired {
        state.generation += 1;
    }
    let mut before = std::mem::take(&mut state.origins);
    for definition in desired.iter() {
        let name = &definition.name;
        let Some((file, place)) = ledger.owner(name) else { continue };
        let (known, is_stale) = (before.remove(name), ledger.is_stale(name));
        let is_here = |known: &&Origin| known.file == file && known.place == *place;
        let last_good = known.as_ref().filter(is_here).map(|known| known.digest);
        let digest = last_good.filter(|_| is_stale).or_else(|| now(file, place));
        let digest = digest.unwrap_or_default();
        let is_same = state.desired.get(name) == Some(definition);
        let (generation, loaded_at) = known
            .filter(|_| is_same)
            .map_or((state.generation, SystemTime::now()), |o| (o.generation, o.loaded_at));
        let (file, place) = (file.to_owned(), place.clone());
        let origin = Origin { file, place, is_stale, generation, loaded_at, digest };
        state.origins.insert(name.clone(), origin);
    }
    state.desired = desired;
    state.digest = digest(&state.origins);
}

/// Digest of the texts of all definitions that should be served. It is equal on all
/// machines that serve the same ones, whatever their files are called.
fn digest(origins: &BTreeMap<PluginName, Origin>) -> Digest {
    let mut hash = Sha256::new();
    for (name, Origin { digest, .. }) in origins {
        hash.update((name.as_str().len() as u64).to_le_bytes());
        hash.update(name.as_str());
        hash.update(digest.0);
    }
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use cmp_sandbox::Tier;

    use super::*;
    use crate::loader::snapshot::Extent;

    const BROKEN: &str = "\n---\nkind: ConfigManagementPlugin\nmetadata: {name: b}";

    fn plugin(name: &str, program: &str) -> String {
        format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec: {{generate: {{command: \
             [{program}]}}}}"
        )
    }

    /// The digest of all definitions and that of the plugin `a` after each of these texts.
    fn after<const N: usize>(texts: [String; N]) -> [(Digest, Digest); N] {
        after_files(texts.map(|text| ("x.yaml", text)))
    }

    /// The same with the names of their files.
    fn after_files<const N: usize>(files: [(&str, String); N]) -> [(Digest, Digest); N] {
        let (mut ledger, mut state) = (Ledger::new(Tier::Uid), State::default());
        files.map(|(name, text)| {
            let text = text.as_bytes();
            let source =
                || Source { name: name.into(), text: Ok(text.into()), extent: Extent::All };
            let read = digests(&[source()]);
            let (desired, _) = ledger.update(vec![source()]);
            settle(&mut state, desired, &ledger, |file, _| read[file]);
            (state.digest, state.origins.values().next().unwrap().digest)
        })
    }

    #[test]
    fn a_definition_that_changes_beside_a_broken_one_has_another_digest() {
        let [first, second] = after(["one", "two"].map(|program| plugin("a", program) + BROKEN));
        assert!(first.0 != second.0 && first.1 != second.1);
        assert_ne!(first.1, Digest::default());
        let [fresh] = after([plugin("a", "two") + BROKEN]);
        assert_eq!(fresh, second);
    }

    #[test]
    fn a_definition_that_breaks_keeps_its_digest() {
        let [good, broken] = after([plugin("a", "one"), plugin("a", "[")]);
        assert_eq!(good, broken);
    }

    #[test]
    fn a_file_with_another_name_changes_no_digest() {
        let [before, after] =
            after_files(["x.yaml", "y.yaml"].map(|file| (file, plugin("a", "one"))));
        assert_eq!(before, after);
    }
}
