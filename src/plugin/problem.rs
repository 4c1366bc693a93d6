//! A diagnostic with the file and the part of the file that it concerns.

use std::fmt;

use super::{Diagnostic, Place};

/// A problem of a definition. If the definition was valid before, its last
/// valid version stays in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The part of the file: a definition, or a larger part if it cannot be read.
    pub place: Place,
    /// True if an earlier version of the definition stays in use.
    pub stale: bool,
    /// The diagnostic.
    pub problem: Diagnostic,
}

impl Problem {
    /// A problem of a whole file.
    pub(crate) fn of_file(file: impl Into<String>, problem: Diagnostic) -> Self {
        Self { file: file.into(), place: Place::default(), stale: false, problem }
    }

    /// The problem and its remedy in one line, without the file's name.
    #[must_use]
    pub fn text(&self) -> String {
        let problem = self.problem.with_help();
        match self.place.to_string() {
            none if none.is_empty() => problem,
            place => format!("{place}: {problem}"),
        }
    }
}

/// One line: `all.yaml (document 2): line 7, column 14: CMP0104: …`.
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
