//! Names of the pipes with which a command asks for git credentials.

/// Extension of the pipe for answers. The pipe for questions has none.
pub const ANSWERS: &str = "answers";
