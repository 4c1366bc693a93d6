//! The description of a failed request: `request.json` of its bundle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    evidence::{Evidence, NotCopied, Variable},
    recent::Entry,
};

/// A failed request.
#[derive(Debug)]
pub struct Failed {
    /// The request, with names and errors.
    pub entry: Entry,
    /// Its content.
    pub evidence: Evidence,
}

/// The description of a failed request.
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

impl Failed {
    /// The description of the request.
    #[must_use]
    pub fn record(&self) -> Record {
        let Self { entry, evidence } = self;
        let error = entry.error.as_ref().map(ToString::to_string);
        let outputs = evidence.commands.iter().map(|command| Printed {
            phase: command.phase.as_str().to_owned(),
            stdout_bytes: command.stdout_bytes as u64,
            is_left_out: command.stdout.is_none(),
        });
        let shown = Entry { error: None, application: None, ..entry.clone() };
        Record {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            request_id: entry.request_id.clone(),
            plugin: entry.plugin.clone(),
            application: entry.application.clone().unwrap_or_default(),
            error: error.unwrap_or_default(),
            // An entry has only keys and values that JSON has.
            request: serde_json::to_value(shown).unwrap_or_default(),
            limits: evidence
                .limits
                .iter()
                .map(|(name, limit)| ((*name).to_owned(), *limit))
                .collect(),
            directory: evidence.asked.directory.clone(),
            environment: evidence.asked.environment.clone(),
            archive: Archived {
                sha256: evidence.asked.checksum.clone(),
                bytes: entry.received_bytes,
                left_out: evidence.archive.pieces().err().map(NotCopied::reason),
            },
            outputs: outputs.collect(),
            outputs_left_out: None,
        }
    }
}
