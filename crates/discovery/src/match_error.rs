//! Errors of deciding a pattern.

use std::fmt;

use super::decision::ShownPath;
use super::index::LookupError;

/// The key of a pattern, with Argo CD's name for it in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatternKind {
    /// `spec.discover.fileName`.
    FileName,
    /// `spec.discover.find.glob`.
    Glob,
}

impl fmt::Display for PatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileName => "filename",
            Self::Glob => "glob",
        })
    }
}

/// A pattern could not be decided. Argo CD fails the request here too.
///
/// Argo CD's texts have absolute paths of its work directory. These texts have
/// the pattern as written and paths relative to the repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error finding {kind} match for pattern {pattern:?}: {cause}")]
pub struct MatchError {
    /// The key that the pattern comes from.
    pub kind: PatternKind,
    /// The pattern as in the definition.
    pub pattern: String,
    /// The reason.
    pub cause: MatchCause,
}

/// The reason why a pattern could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchCause {
    /// A glob without `*` and `{` names a missing file.
    #[error("file does not exist")]
    FileDoesNotExist,
    /// The part of a glob before its first `*` or `{` does not exist.
    #[error("stat {path}: {error}")]
    Root {
        /// The path in the repository. `..` if the pattern leads above it.
        path: ShownPath,
        /// The error of a file system.
        error: LookupError,
    },
    /// The search would take too long. Argo CD has no such limit.
    #[error("too many files and links for this pattern")]
    TooMuchWork,
    /// The caller stopped the search.
    #[error("the search was stopped")]
    Stopped,
}
