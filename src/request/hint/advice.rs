//! Advice about an access that the sandbox refused, or about a limit.

use serde::{Deserialize, Serialize};

use crate::settings::Setting;

/// The key of a definition that opens something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// This path in `spec.sandbox.read`.
    Read(String),
    /// This port in `spec.sandbox.network`.
    Port(u16),
    /// `any` as `spec.sandbox.network`.
    AnyPort,
    /// A higher value for this key of `spec.limits`.
    Limit(String),
}

/// A sentence, and the key that opens what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The sentence.
    pub text: String,
    /// The key; `None` if no key should be set.
    pub opening: Option<Opening>,
}

impl Advice {
    pub(super) fn by(opening: Opening, text: String) -> Self {
        Self { text, opening: Some(opening) }
    }

    /// The advice to raise a limit. `own` is true if the plugin's definition sets it.
    pub(super) fn raise(row: &Setting, own: bool, fact: &str) -> Self {
        let text = format!("{fact}: {}", row.raise(own));
        Self::by(Opening::Limit(row.key_name().to_owned()), text)
    }

    pub(super) fn only(text: impl Into<String>) -> Self {
        Self { text: text.into(), opening: None }
    }
}
