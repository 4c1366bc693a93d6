//! plugin.yaml, field for field, and what Argo CD demands of it.

mod extension;
mod fault;
mod fields;
mod json;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod time;
mod typed;

use serde::Deserialize;
use serde_json::Value;

pub use self::{fault::InvalidManifest, schema::schema, shape::Step};
pub(super) use self::{
    shape::{Finding, FindingKind, at, folds_to},
    typed::KIND,
};
use self::{
    shape::{Shape, Unknown},
    typed::{AnnouncementManifest, PluginManifest},
};
use super::{Announcement, PluginDefinition};

/// Most bytes of JSON that one document may become: aliases repeat what they
/// name, and no definition is larger than a `ConfigMap`, which is 1 MiB.
const MAX_JSON_BYTES: usize = 4 << 20;

/// Reads the first document of a plugin.yaml the way Argo CD does.
pub fn read(text: &[u8]) -> Result<PluginDefinition, InvalidManifest> {
    let Judgement { definition, faults, .. } = judge(&value(text)?);
    match (definition, faults.into_iter().next()) {
        (Some(definition), None) => Ok(definition),
        (_, Some(fault)) => Err(fault),
        (None, None) => Err(InvalidManifest::NoGenerate),
    }
}

/// The first document of a text, as Argo CD sees it.
pub(super) fn value(text: &[u8]) -> Result<Value, InvalidManifest> {
    let mut json = Vec::new();
    let converted = cmp_yaml::Converter::new(MAX_JSON_BYTES).convert(text, &mut json);
    converted.map_err(InvalidManifest::Yaml)?;
    serde_json::from_slice(&json).map_err(InvalidManifest::Json)
}

/// What there is to say of a definition.
#[derive(Debug)]
pub(super) struct Judgement {
    /// Present if and only if there is no fault.
    pub(super) definition: Option<PluginDefinition>,
    /// What is wrong, as Argo CD finds it: the first is what it would say.
    pub(super) faults: Vec<InvalidManifest>,
    /// What Argo CD takes without a word.
    pub(super) oddities: Vec<Finding>,
    /// The value with keys as they should be, and nothing that nobody reads.
    pub(super) value: Value,
}

/// Judges one value as a definition.
pub(super) fn judge(value: &Value) -> Judgement {
    let (value, findings) = shape::read(value, &Shape::Struct(&fields::PLUGIN));
    let (mut faults, mut oddities) = (Vec::new(), Vec::new());
    for finding in findings {
        match refused(finding) {
            Ok(fault) => faults.push(fault),
            Err(oddity) => oddities.push(oddity),
        }
    }
    if !faults.is_empty() {
        return Judgement { definition: None, faults, oddities, value };
    }
    let typed =
        PluginManifest::deserialize(&value).map_err(|error| vec![InvalidManifest::Json(error)]);
    let (definition, faults) = match typed.and_then(PluginManifest::define) {
        Ok(definition) => (Some(definition), Vec::new()),
        Err(faults) => (None, faults),
    };
    Judgement { definition, faults, oddities, value }
}

/// Reads announcements that a command printed, as `encoding/json` reads them.
pub fn read_announcements(text: &[u8]) -> Result<Vec<Option<Announcement>>, InvalidManifest> {
    json::check(text).map_err(InvalidManifest::Printed)?;
    let value: Value = serde_json::from_slice(text).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &fields::ANNOUNCEMENTS);
    if let Some(fault) = findings.into_iter().find_map(|finding| refused(finding).ok()) {
        return Err(fault);
    }
    let items = Vec::<Option<AnnouncementManifest>>::deserialize(value);
    Ok(items.map_err(InvalidManifest::Json)?.into_iter().map(|item| item.map(Into::into)).collect())
}

/// The section of a definition that has a key of this name.
pub(super) fn home(key: &str) -> Option<String> {
    fields::section_of(key)
}

/// A finding that is as good as an error, or the finding.
fn refused(finding: Finding) -> Result<InvalidManifest, Finding> {
    let Finding { path, kind } = finding;
    match kind {
        FindingKind::Type { message, wanted, found } => {
            Ok(InvalidManifest::Type { path, message, wanted, found })
        }
        FindingKind::Unknown { among } if among.unknown == Unknown::Refused => {
            let known = among.fields.iter().map(|field| field.name).collect();
            Ok(InvalidManifest::Unknown { path, known })
        }
        FindingKind::Unknown { .. } | FindingKind::Case { .. } => Err(Finding { path, kind }),
    }
}
