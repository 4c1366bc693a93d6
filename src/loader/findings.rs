//! What looking at the definitions came to, for people and machines.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::Problem;
use crate::{
    metrics::{Configured, Reload},
    plugin::{Place, PluginName},
};

/// Bytes of a digest that are shown: enough to tell two definitions apart.
const DIGEST_SHOWN: usize = 6;

/// What the last look at the definitions came to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Findings(pub(super) Arc<Found>);

/// The content of [`Findings`].
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) result: Reload,
    pub(super) generation: u64,
    pub(super) good_since: Option<SystemTime>,
    pub(super) kept: Option<Kept>,
    pub(super) origins: BTreeMap<PluginName, Origin>,
    pub(super) troubles: Vec<Trouble>,
    pub(super) watching: bool,
}

impl Found {
    /// Whether every definition could be read and is valid.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.result, Reload::Applied | Reload::Unchanged)
    }

    /// What metrics tell of it.
    pub(super) fn summary(&self, digest: Digest) -> Configured {
        Configured {
            generation: self.generation,
            hash: digest.number(),
            diagnostics: self.troubles.len(),
            good_since: self.good_since,
            emptied: self.kept.as_ref().is_some_and(|kept| kept.left.is_some()),
            is_good: self.is_good(),
        }
    }
}

/// Why all definitions stay as they were, whatever is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What is wrong.
    pub reason: String,
    /// For how long, if not until it is put right.
    pub left: Option<Duration>,
}

/// Where a plugin's definition is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its path in the plugins directory.
    pub file: String,
    /// The part of the file.
    pub place: Place,
    /// The set of definitions that it came with; see [`Findings::generation`].
    pub generation: u64,
    /// When it was read.
    pub loaded_at: SystemTime,
    /// Of the text it was read from.
    pub digest: Digest,
}

/// Tells two texts apart, on any machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub(super) [u8; 32]);

/// What is wrong with a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its path in the plugins directory.
    pub file: String,
    /// The part: a definition, or more if no more is known.
    pub place: Place,
    /// Whether an earlier definition of it stays.
    pub stale: bool,
    /// What is wrong, without the file's name.
    pub text: String,
}

impl Findings {
    /// How the look ended.
    #[must_use]
    pub fn result(&self) -> Reload {
        self.0.result
    }

    /// Counts the sets of definitions since the start; the first is 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    /// When everything there was could be read and was good; `None` if never.
    #[must_use]
    pub fn good_since(&self) -> Option<SystemTime> {
        self.0.good_since
    }

    /// Why all definitions are kept, if they are.
    #[must_use]
    pub fn kept(&self) -> Option<&Kept> {
        self.0.kept.as_ref()
    }

    /// Where a plugin's definition is from.
    #[must_use]
    pub fn origin(&self, name: &PluginName) -> Option<&Origin> {
        self.0.origins.get(name)
    }

    /// What is wrong with which file.
    #[must_use]
    pub fn troubles(&self) -> &[Trouble] {
        &self.0.troubles
    }

    /// Whether it is anything else than what was found before.
    pub(super) fn is_news(&self, before: &Self) -> bool {
        let of = |found: &Found| (found.generation, found.kept.is_some(), found.is_good());
        of(&self.0) != of(&before.0) || self.0.troubles != before.0.troubles
    }

    /// Whether changes are heard of at once, and not only by looking.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        self.0.watching
    }
}

impl Trouble {
    pub(super) fn of(problem: &Problem) -> Self {
        let Problem { file, place, stale, problem } = problem;
        let text = match place.to_string() {
            none if none.is_empty() => problem.to_string(),
            shown => format!("{shown}: {problem}"),
        };
        Self { file: file.clone(), place: place.clone(), stale: *stale, text }
    }

    /// Whether a definition is, or is in, what is wrong.
    #[must_use]
    pub fn concerns(&self, origin: &Origin) -> bool {
        self.file == origin.file && self.place.holds(&origin.place)
    }
}

impl Digest {
    /// The first bytes, as lower-case hexadecimal digits.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{:0width$x}", self.number(), width = 2 * DIGEST_SHOWN)
    }

    /// The first 48 bits, which a floating-point number holds exactly.
    pub(super) fn number(&self) -> u64 {
        self.0.iter().take(DIGEST_SHOWN).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
