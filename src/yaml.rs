//! YAML 1.1 as Argo CD reads it.

#![expect(clippy::error_impl_error, reason = "yaml::Error is what it is called")]

use thiserror::Error;

pub mod stream;

/// Why a text is not YAML.
#[derive(Debug, Error)]
#[error("yaml: {0}")]
pub struct Error(String);

/// The first document as JSON.
pub fn to_json(text: &[u8]) -> Result<Vec<u8>, Error> {
    let value: serde_json::Value =
        serde_yaml::from_slice(text).map_err(|e| Error(e.to_string()))?;
    serde_json::to_vec(&value).map_err(|e| Error(e.to_string()))
}
