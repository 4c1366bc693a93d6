//! `spec.limits`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Judge, key};
use crate::{
    plugin::{confinement::Limits, manifest::InvalidManifest},
    settings::{self, Limit, Setting},
};

/// `spec.limits` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(in crate::plugin::manifest) struct LimitsManifest(Map<String, Value>);

impl LimitsManifest {
    /// Its meaning. Invalid values are reported, and left out.
    pub(in crate::plugin::manifest) fn define(self, faults: &mut Vec<InvalidManifest>) -> Limits {
        let refuse_encrypted = self.0.get(settings::REFUSE_ENCRYPTED.key_name());
        let mut judge = Judge { section: "limits", faults };
        let mut limit = |row: &Setting| judge.amount(row, self.0.get(row.key_name())?);
        Limits {
            timeout: limit(&settings::TIMEOUT).and_then(|time| time.0).map(Duration::from_millis),
            memory: limit(&settings::MEMORY),
            processes: limit(&settings::PROCESSES),
            cpu: limit(&settings::CPU),
            file_size: limit(&settings::FILE_SIZE),
            disk: limit(&settings::DISK),
            files: limit(&settings::FILES),
            output: limit(&settings::OUTPUT).and_then(|size| size.0),
            requests: limit(&settings::REQUESTS).and_then(count),
            minimum_manifests: limit(&settings::MINIMUM_MANIFESTS).and_then(count).unwrap_or(0)
                as usize,
            refuse_encrypted: refuse_encrypted.and_then(Value::as_bool).unwrap_or(false),
        }
    }
}

impl Judge<'_> {
    /// The amount that a value states; what is not one is reported.
    fn amount(&mut self, row: &Setting, value: &Value) -> Option<Limit> {
        let amount = row.amount();
        let read = match value {
            Value::Null => return None,
            Value::Number(number) => amount.read(&number.to_string()),
            Value::String(text) => amount.read(text),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        if read.is_none() {
            self.refuse([key(row.key_name())], amount.expected().to_string());
        }
        read
    }
}

fn count(limit: Limit) -> Option<u32> {
    u32::try_from(limit.0?).ok()
}
