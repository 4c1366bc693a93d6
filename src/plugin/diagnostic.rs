//! A problem of a definition: its code, place, explanation and remedy.

use std::fmt;

use serde::Serialize;

use super::{Code, Severity};

/// A problem of a definition, or a note on it. `serve` logs it in one line;
/// `validate` also shows the line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Kind of the problem.
    pub code: Code,
    /// The problem, in one line.
    pub message: String,
    /// The part of the file that causes it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// A few words about the region; `validate` prints them next to it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Consequences, and Argo CD's error message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Other places that contribute to the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// A part of one line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Line, counted from 1.
    pub line: usize,
    /// First column in characters, counted from 1.
    pub column: usize,
    /// The column after the last character.
    pub end_column: usize,
}

/// Another place that contributes to a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// The file's name; empty for the file of the diagnostic.
    pub file: String,
    /// The part of the file, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// A few words about the place.
    pub label: String,
}

impl Diagnostic {
    /// A diagnostic without region, notes and help.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            region: None,
            label: String::new(),
            notes: Vec::new(),
            help: None,
            related: Vec::new(),
        }
    }

    /// Sets the region.
    #[must_use]
    pub fn at(self, region: Option<Region>) -> Self {
        Self { region, ..self }
    }

    /// Sets the label of the region.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The diagnostic and its remedy in one line.
    #[must_use]
    pub fn with_help(&self) -> String {
        self.help.as_ref().map_or_else(|| self.to_string(), |help| format!("{self}: {help}"))
    }

    /// Severity of its code.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// One line for a log: `line 7, column 14: CMP0104: …`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(region) = self.region {
            write!(formatter, "line {}, column {}: ", region.line, region.column)?;
        }
        write!(formatter, "{}: {}", self.code, self.message)?;
        // Only the label tells which values are valid.
        if self.code == Code::InvalidValue { write!(formatter, ": {}", self.label) } else { Ok(()) }
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Region {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}
