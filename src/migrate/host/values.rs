//! Values of the Helm chart, alone or in an object.

use serde_json::{Value, json};

use super::{Form, Host};
use crate::{
    config::PEER_NAME,
    migrate::field::{at, is_position, text},
};

/// Deepest place of chart values: below a parent chart, in a release, in a list.
const MAX_DEPTH: usize = 9;

/// The kind of which a controller makes other objects.
const SET: &str = "ApplicationSet";

impl Host {
    /// The values of the chart, if the document has some.
    pub(in crate::migrate) fn values(&self) -> Option<&Value> {
        let (_, above) = self.base.split_last().filter(|_| self.form == Form::Chart)?;
        at(&self.document, above)
    }

    /// Keys of the release's values, such as `spec.values`. Those of a parent chart have the
    /// chart's below.
    pub(in crate::migrate) fn path_of_values(&self) -> String {
        let end = self.base.iter().position(|key| ["values", "valuesObject"].contains(&&**key));
        let end = end.map_or(self.base.len().saturating_sub(1), |index| index + 1);
        let step =
            |key: &String| if is_position(key) { format!("[{key}]") } else { format!(".{key}") };
        let path: String = self.base.iter().take(end).map(step).collect();
        path.trim_start_matches('.').to_owned()
    }

    /// True if a controller makes objects of the document, and can replace variables in them.
    pub(in crate::migrate) fn is_set(&self) -> bool {
        text(&self.document, "kind") == SET
    }

    /// Number of engines for Go templates that expand texts in the result: that of the chart, and
    /// before it that of an `ApplicationSet`. The usual engine of an `ApplicationSet` is none: it
    /// leaves braces without one of its own variables.
    pub(in crate::migrate) fn template_engines(&self) -> usize {
        let is_set =
            self.is_set() && self.document.pointer("/spec/goTemplate") == Some(&json!(true));
        usize::from(self.values().is_some()) + usize::from(is_set)
    }
}

/// True if a text in the object has values of the chart with sidecars, such as `helm.values` of
/// an Application.
pub(super) fn has_values_as_text(part: &Value) -> bool {
    match part {
        Value::String(text) => {
            let is_key = |key: &&str| text.contains(*key);
            ["repoServer:", "\"repoServer\""].iter().any(is_key) && text.contains(PEER_NAME)
        }
        Value::Array(items) => items.iter().any(has_values_as_text),
        Value::Object(members) => members.values().any(has_values_as_text),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Path of `repoServer` with sidecars, also below a parent chart's key, or in a list.
pub(super) fn chart(value: &Value, path: &mut Vec<String>) -> Option<Vec<String>> {
    if path.len() == MAX_DEPTH {
        return None;
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    let items = items.map(|(position, inner)| (position.to_string(), inner));
    let members = value.as_object().into_iter().flatten();
    for (key, inner) in members.map(|(key, inner)| (key.clone(), inner)).chain(items) {
        let has = || ["extraContainers", "initContainers"].iter().any(|k| inner.get(k).is_some());
        let is_it = key == "repoServer" && has();
        path.push(key);
        let found = if is_it { Some(path.clone()) } else { chart(inner, path) };
        if found.is_some() {
            return found;
        }
        path.pop();
    }
    None
}
