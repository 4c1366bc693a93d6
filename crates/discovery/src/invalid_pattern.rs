//! Patterns refused when their definition is loaded.

use super::PatternKind;

/// A pattern that no request could answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error finding {kind} match for pattern {pattern:?}: {fault}")]
pub struct InvalidPattern {
    /// Which key it came from.
    pub kind: PatternKind,
    /// As written in the definition.
    pub pattern: String,
    /// Byte in `pattern` where the fault begins.
    pub offset: usize,
    /// What is wrong.
    pub fault: PatternFault,
}

/// What is wrong with a pattern. The first two texts are those of Argo CD.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// A class that is empty or open, a range without an end, or a `\` at the end.
    #[error("syntax error in pattern")]
    Syntax,
    /// A class of a glob that is no class of Go's `regexp`.
    #[error("error parsing regexp: {0}")]
    Expression(String),
    /// `\p` in a class of a glob.
    #[error("classes of Unicode properties are not supported")]
    UnicodeClass,
    /// A component `$NAME` or `$(NAME)` without an environment.
    #[error("a component that names an environment variable is not expanded")]
    Variable,
    /// More than a path may have.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// Unclosed brackets, each of which repeats what follows, make it explode.
    #[error("too many unclosed brackets")]
    TooComplex,
}
