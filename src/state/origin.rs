//! The source of a plugin's definition.

use std::time::SystemTime;

use crate::plugin::{Place, Problem};

/// Bytes of a digest that are shown, which is enough to distinguish definitions.
const DIGEST_SHOWN: usize = 6;

/// The source of a plugin's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its path in the plugins directory.
    pub file: String,
    /// The part of the file.
    pub place: Place,
    /// True if the text there is not valid now.
    pub is_stale: bool,
    /// The generation in which the definition last changed; see
    /// [`super::State::generation`].
    pub generation: u64,
    /// Time when it was read.
    pub loaded_at: SystemTime,
    /// Digest of the file's text from which it was read.
    pub digest: Digest,
}

/// SHA-256 of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub(crate) [u8; 32]);

impl Origin {
    /// True if the problem is the reason why this definition is stale.
    pub(super) fn is_in(&self, problem: &Problem) -> bool {
        self.is_stale && self.file == problem.file && problem.place.holds(&self.place)
    }
}

impl Digest {
    /// The first bytes, as lower-case hexadecimal digits.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{:0width$x}", self.number(), width = 2 * DIGEST_SHOWN)
    }

    /// The first 48 bits, which a floating-point number holds exactly.
    pub(crate) fn number(&self) -> u64 {
        self.0.iter().take(DIGEST_SHOWN).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
