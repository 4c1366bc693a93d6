//! What is wrong with a definition of a file.

use std::fmt;

use super::{Diagnostic, Place};

/// What is wrong with a definition. Its last good form, if any, stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The part of the file: a definition, or more if no more is known.
    pub place: Place,
    /// Whether an earlier definition of it is served.
    pub stale: bool,
    /// What is wrong, and where.
    pub problem: Diagnostic,
}

impl Problem {
    /// A problem with a file as a whole.
    pub(crate) fn of_file(file: impl Into<String>, problem: Diagnostic) -> Self {
        Self { file: file.into(), place: Place::default(), stale: false, problem }
    }

    /// The problem without the file's name.
    #[must_use]
    pub fn text(&self) -> String {
        match self.place.to_string() {
            none if none.is_empty() => self.problem.to_string(),
            place => format!("{place}: {}", self.problem),
        }
    }
}

/// One line: `bundle.yaml (document 2): line 7, column 14: CMP0104: …`.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        let place = self.place.to_string();
        if !place.is_empty() {
            write!(formatter, " ({place})")?;
        }
        write!(formatter, ": {}", self.problem)
    }
}

impl std::error::Error for Problem {}
