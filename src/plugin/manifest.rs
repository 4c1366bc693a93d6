//! Reads plugin.yaml as Argo CD does.

mod extension;
mod fault;
mod fields;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod typed;

use cmp_yaml::stream::check_json;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::{extension::may_name_cache, shape::folds_to};
pub use self::{fault::InvalidManifest, schema::schema, shape::Step};
pub(super) use self::{
    fields::sections_of,
    shape::{Finding, FindingKind, at},
    typed::KIND,
};
use self::{shape::Shape, typed::PluginManifest};
use super::{Announcement, PluginDefinition};

/// Most bytes of JSON that one document can become. A definition has at most the
/// 1 MiB of a `ConfigMap`, but aliases can repeat parts of it.
const MAX_JSON_BYTES: usize = 4 << 20;

/// The first document of a text as JSON, as Argo CD converts it.
pub(super) fn value(text: &[u8]) -> Result<Value, InvalidManifest> {
    let mut json = Vec::new();
    let converted = cmp_yaml::Converter::new(MAX_JSON_BYTES).convert(text, &mut json);
    converted.map_err(InvalidManifest::Yaml)?;
    serde_json::from_slice(&json).map_err(InvalidManifest::Json)
}

/// Result of checking a definition.
#[derive(Debug)]
pub(super) struct Checked {
    /// Present if and only if `faults` is empty.
    pub(super) definition: Option<PluginDefinition>,
    /// Errors in Argo CD's order. Argo CD would report only the first.
    pub(super) faults: Vec<InvalidManifest>,
    /// Mistakes that Argo CD silently accepts.
    pub(super) warnings: Vec<Finding>,
    /// The value with canonical keys and without unknown ones.
    pub(super) value: Value,
}

/// Checks one value as a definition.
pub(super) fn check(value: &Value) -> Checked {
    let (value, findings) = shape::read(value, &Shape::Struct(&fields::PLUGIN));
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    for finding in findings {
        match refused(finding) {
            Ok(fault) => faults.push(fault),
            Err(warning) => warnings.push(warning),
        }
    }
    if !faults.is_empty() {
        return Checked { definition: None, faults, warnings, value };
    }
    let typed =
        PluginManifest::deserialize(&value).map_err(|error| vec![InvalidManifest::Json(error)]);
    let (definition, faults) = match typed.and_then(PluginManifest::define) {
        Ok(definition) => (Some(definition), Vec::new()),
        Err(faults) => (None, faults),
    };
    Checked { definition, faults, warnings, value }
}

/// Reads announcements that a command printed, as Go's `encoding/json` does.
pub fn read_announcements(text: &[u8]) -> Result<Vec<Option<Announcement>>, InvalidManifest> {
    check_json(text).map_err(InvalidManifest::Printed)?;
    let value: Value = serde_json::from_slice(text).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &fields::ANNOUNCEMENTS);
    if let Some(fault) = findings.into_iter().find_map(|finding| refused(finding).ok()) {
        return Err(fault);
    }
    Vec::deserialize(value).map_err(InvalidManifest::Json)
}

/// Converts a finding to an error, or returns it if it is only a warning.
fn refused(finding: Finding) -> Result<InvalidManifest, Finding> {
    let Finding { path, kind } = finding;
    match kind {
        FindingKind::Type { message, wanted, found } => {
            Ok(InvalidManifest::Type { path, message, wanted, found })
        }
        FindingKind::Refused { among } => {
            let known = among.fields.iter().map(|field| field.name).collect();
            Ok(InvalidManifest::Unknown { path, known })
        }
        FindingKind::Unknown { .. } | FindingKind::Case { .. } => Err(Finding { path, kind }),
    }
}
