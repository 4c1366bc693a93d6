//! Constructs of a script that are within each other.

use super::search::Pipe;

/// The innermost construct around the current position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Commands of the script, of `$(…)` or of `(…)`.
    Commands,
    /// Commands of a backquoted substitution.
    Backquotes,
    /// `"…"`
    Quotes,
    /// `${…}`; its words are quoted if the expression is.
    Braces { is_quoted: bool },
    /// `$((…))` or `((…))`
    Arithmetic,
    /// A pattern in parentheses, in which the shell splits no values.
    Pattern,
}

pub(super) struct Level {
    pub(super) within: Within,
    /// Byte offset of the current command.
    pub(super) command: usize,
    /// Pipes since the last separator. An unmatched `)` shows that they separate
    /// patterns of a `case`.
    pub(super) pipes: Vec<Pipe>,
    /// True between `[[` and `]]`, where the shell splits no values.
    pub(super) is_test: bool,
}

impl Level {
    pub(super) fn new(within: Within, command: usize) -> Self {
        Self { within, command, pipes: Vec::new(), is_test: false }
    }
}
