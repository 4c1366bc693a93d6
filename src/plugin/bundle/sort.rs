//! What a value in a file is to us.

use serde_json::Value;

use crate::plugin::{
    manifest::{KIND, folds_to},
    suggestion::nearest,
};

/// What a value is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Nothing,
    Plugin,
    ConfigMap,
    List,
    Unrelated,
}

impl Sort {
    pub(super) fn of(value: &Value) -> Self {
        let members = match value {
            Value::Null => return Self::Nothing,
            Value::Array(_) => return Self::List,
            Value::Object(members) => members,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => return Self::Unrelated,
        };
        let folded = |name: &str| members.iter().rev().find(|(key, _)| folds_to(key, name));
        let has_generate =
            || folded("spec").is_some_and(|(_, spec)| spec.get("generate").is_some());
        match folded("kind").and_then(|(_, kind)| kind.as_str()).unwrap_or_default() {
            "ConfigMap" => Self::ConfigMap,
            kind if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) => {
                Self::List
            }
            // Nearly so, or nothing at all, is a mistake and no other thing.
            kind if nearest(kind, [KIND]).is_some() => Self::Plugin,
            "" if has_generate() => Self::Plugin,
            _ => Self::Unrelated,
        }
    }
}

/// Whether a broken text says that it is meant as a definition.
pub(super) fn mentions_kind(text: &[u8]) -> bool {
    memchr::memmem::find(text, KIND.as_bytes()).is_some()
}
