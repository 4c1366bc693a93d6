//! What is wrong with a definition, where, and what to do about it.

use std::fmt;

use serde::Serialize;

use super::{Code, Severity};

/// One thing to tell about a definition. Serving logs it in one line, and
/// `validate` shows it with the text around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Which kind of thing.
    pub code: Code,
    /// What is wrong, in one line.
    pub message: String,
    /// Where in the file, if there is a place to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// What stands there, said in a few words beside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What follows from it, and what Argo CD says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// What else has to do with it.
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
    /// The column behind it.
    pub end_column: usize,
}

/// Another place that has to do with a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// The file's name.
    pub file: String,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// What stands there.
    pub label: String,
}

impl Diagnostic {
    /// A diagnostic without a place.
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

    /// The same at a place.
    #[must_use]
    pub fn at(self, region: Option<Region>) -> Self {
        Self { region, ..self }
    }

    /// The same with words beside its place.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    /// The same with one more consequence.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same with a way out.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// How much it matters.
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
        write!(formatter, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Region {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}
