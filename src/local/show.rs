//! Results as text, YAML or JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::{LocalError, target::Claim};
use crate::{
    config::OutputFormat,
    grpc::ClientError,
    plugin::Announcement,
    terminal::{self, printable, printable_json},
    yaml,
};

/// The number, from 1, of the first manifest that is no Kubernetes object.
pub(super) fn first_stranger(manifests: &[Bytes]) -> Option<usize> {
    let is_object = |manifest: &Bytes| {
        let value: Option<Value> = serde_json::from_slice(manifest).ok();
        ["apiVersion", "kind"]
            .iter()
            .all(|key| value.as_ref().is_some_and(|value| value.get(key).is_some()))
    };
    manifests.iter().position(|manifest| !is_object(manifest)).map(|at| at + 1)
}

/// Manifests as a stream of YAML documents, or as a JSON list.
pub(super) fn manifests(manifests: &[Bytes], format: OutputFormat) -> Result<String, LocalError> {
    let values: Vec<Value> = manifests
        .iter()
        .map(|manifest| serde_json::from_slice(manifest))
        .collect::<Result<_, _>>()
        .map_err(|error| LocalError::Show(error.to_string()))?;
    match format {
        OutputFormat::Json => text(&values, format),
        OutputFormat::Yaml => {
            let documents = values.iter().map(|value| text(value, format));
            let documents: Vec<_> = documents.collect::<Result<_, _>>()?;
            Ok(documents.iter().flat_map(|document| ["---\n", document]).collect())
        }
    }
}

/// The answer of each plugin to discovery. People read the reasons on standard error.
pub(super) fn claims(
    claims: &[(String, Result<Claim, ClientError>)],
    reasons: &BTreeMap<String, String>,
    format: OutputFormat,
) -> Result<String, LocalError> {
    let word = |verdict: &Result<Claim, ClientError>| match verdict {
        Ok(Claim::Match) => "match".to_owned(),
        Ok(Claim::NoMatch) => "no match".to_owned(),
        Ok(Claim::ByName) => "by name only: the plugin has no discovery".to_owned(),
        Err(error) => format!("error: {error}"),
    };
    if format == OutputFormat::Json {
        let rows = claims.iter().map(|(name, verdict)| {
            let is_match = matches!(verdict, Ok(Claim::Match));
            let mut row = json!({"plugin": name, "match": is_match, "verdict": word(verdict)});
            if let Some(reason) = reasons.get(name).filter(|_| verdict.is_ok()) {
                row["reason"] = reason.as_str().into();
            }
            row
        });
        return text(&rows.collect::<Vec<_>>(), format);
    }
    let width = claims.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let row = |(name, verdict): &(String, _)| {
        let verdict = word(verdict).replace('\n', &format!("\n{:width$}  ", ""));
        format!("{name:width$}  {verdict}\n")
    };
    Ok(printable(&claims.iter().map(row).collect::<String>()).into_owned())
}

/// Parameter announcements.
pub(super) fn announcements(
    announced: &[Announcement],
    format: OutputFormat,
) -> Result<String, LocalError> {
    let mut announced = json!(announced);
    for object in announced.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        object.retain(|_, value| !is_default(value));
    }
    text(&announced, format)
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    }
}

pub(super) fn text(value: &impl Serialize, format: OutputFormat) -> Result<String, LocalError> {
    match format {
        OutputFormat::Yaml => serde_json::to_value(value).map(|value| yaml::write(&value)),
        OutputFormat::Json => serde_json::to_string_pretty(value).map(|text| printable_json(&text)),
    }
    .map_err(|error| LocalError::Show(error.to_string()))
}

/// Writes a result to standard output.
pub(super) fn print(result: &str) -> Result<(), LocalError> {
    terminal::print(result).map_err(|error| LocalError::Show(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_of_several_lines_keeps_its_column_and_controls_no_terminal() {
        let error = ClientError::Archive(io::Error::other("one\n\u{1b}two"));
        let all = [("a".to_owned(), Err(error)), ("long".to_owned(), Ok(Claim::Match))];
        let expected = "a     error: cannot read the packed repository: one\n      \u{fffd}two\n\
                        long  match\n";
        assert_eq!(claims(&all, &BTreeMap::new(), OutputFormat::Yaml).unwrap(), expected);
    }
}
