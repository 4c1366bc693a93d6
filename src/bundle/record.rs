//! The description of a failed request: `request.json` of its bundle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::evidence::Variable;

/// A failed request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The supervisor's version.
    pub version: String,
    /// The ID in its log lines.
    pub request_id: String,
    /// Name of its plugin.
    pub plugin: String,
    /// Name of the application.
    pub application: String,
    /// The error that the client got, without secrets.
    pub error: String,
    /// The request, as `/requests` shows it.
    pub request: Value,
    /// Limits of its commands by name; bytes, seconds or numbers.
    pub limits: BTreeMap<String, u64>,
    /// The application's directory in the repository.
    pub directory: String,
    /// The variables of the request, most of them without values.
    pub environment: Vec<Variable>,
    /// The repository.
    pub archive: Archived,
    /// Outputs of its commands.
    pub outputs: Vec<Printed>,
    /// The reason why the bundle does not have the outputs and the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs_left_out: Option<String>,
}

/// The archive of a failed request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Archived {
    /// SHA-256, as the client stated it.
    pub sha256: String,
    /// Bytes that were received.
    pub bytes: u64,
    /// The reason why the bundle does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The output of a command.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Printed {
    /// The phase in which the command ran.
    pub phase: String,
    /// Bytes of its standard output.
    pub stdout_bytes: u64,
    /// True if there was no memory for a copy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_left_out: bool,
}
