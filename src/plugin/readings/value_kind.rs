//! Kinds of values in a file, by their `kind`.

use serde_json::Value;

use crate::plugin::{
    manifest::{KIND, folds_to},
    suggestion::nearest,
};

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Nothing,
    Plugin,
    ConfigMap,
    List,
    /// It is no map with a `kind`, so it may be the start of a definition.
    Unfinished,
    Unrelated,
}

impl ValueKind {
    pub(super) fn of(value: &Value) -> Self {
        let members = match value {
            Value::Null => return Self::Nothing,
            Value::Array(_) => return Self::List,
            Value::Object(members) => members,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => return Self::Unfinished,
        };
        let folded = |name: &str| members.iter().rev().find(|(key, _)| folds_to(key, name));
        let has_generate =
            || folded("spec").is_some_and(|(_, spec)| spec.get("generate").is_some());
        match folded("kind").and_then(|(_, kind)| kind.as_str()).unwrap_or_default() {
            "ConfigMap" => Self::ConfigMap,
            kind if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) => {
                Self::List
            }
            // A misspelt or missing kind is reported as an error in a definition.
            kind if nearest(kind, [KIND]).is_some() => Self::Plugin,
            "" if has_generate() => Self::Plugin,
            kind if KIND.starts_with(kind) => Self::Unfinished,
            _ => Self::Unrelated,
        }
    }
}

/// True if an invalid text mentions the kind of definitions.
pub(super) fn mentions_kind(text: &[u8]) -> bool {
    memchr::memmem::find(text, KIND.as_bytes()).is_some()
}
