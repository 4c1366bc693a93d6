//! Questions a pattern has no answer to.

use std::fmt;

use super::index::LookupError;
use super::verdict::Shown;

/// The key a pattern comes from, as Argo CD's errors name it.
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

/// No verdict: Argo CD fails the request here as well.
///
/// Its texts hold absolute paths of its work directory; these hold the pattern
/// as written and paths of the repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error finding {kind} match for pattern {pattern:?}: {cause}")]
pub struct MatchError {
    /// Which key the pattern came from.
    pub kind: PatternKind,
    /// As written in the definition.
    pub pattern: String,
    /// What happened.
    pub cause: MatchCause,
}

/// Why there is no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchCause {
    /// A glob without `*` and `{` names a file that is absent.
    #[error("file does not exist")]
    FileDoesNotExist,
    /// The part of a glob before its first `*` or `{` is absent.
    #[error("stat {path}: {error}")]
    Root {
        /// In the repository; `..` where the pattern climbs above it.
        path: Shown,
        /// What the file system would say.
        error: LookupError,
    },
    /// The verdict would take too long. Argo CD has no such bound.
    #[error("too many files and links for this pattern")]
    TooMuchWork,
}
