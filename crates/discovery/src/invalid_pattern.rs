//! Errors of invalid patterns, found when a definition is loaded.

use super::PatternKind;

/// Longest pattern in bytes. Linux has the same limit for paths (`PATH_MAX`).
pub(super) const MAX_PATTERN_BYTES: usize = 4096;

/// A pattern that is invalid for every request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error finding {kind} match for pattern {pattern:?}: {fault}")]
pub struct InvalidPattern {
    /// The key that the pattern comes from.
    pub kind: PatternKind,
    /// The pattern as in the definition.
    pub pattern: String,
    /// Byte offset of the error in `pattern`.
    pub offset: usize,
    /// The error.
    pub fault: PatternFault,
}

/// The reason why a pattern is invalid. The first two texts are Argo CD's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// An empty or unclosed class, a range without an end, or a `\` at the end.
    #[error("syntax error in pattern")]
    Syntax,
    /// A class that Go's `regexp` refuses.
    #[error("error parsing regexp: {0}")]
    Expression(String),
    /// `\p` in a class of a glob.
    #[error("classes of Unicode properties are not supported")]
    UnicodeClass,
    /// A component `$NAME` or `$(NAME)`, which would be a variable of the server.
    #[error("a component that names an environment variable is not expanded")]
    Variable,
    /// The pattern is longer than a path may be.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// Each unclosed bracket repeats the rest of the pattern, so the expression
    /// becomes too large.
    #[error("too many unclosed brackets")]
    TooComplex,
}
