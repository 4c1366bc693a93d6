//! Errors of a command's output.

use std::fmt;

use crate::Cause;

/// Longest excerpt of the line with the error, in bytes.
pub const MAX_EXCERPT_BYTES: usize = 160;

#[expect(clippy::error_impl_error, reason = "`stream::Error` is what it is called")]
/// The reason why an output is invalid. The text is Argo CD's, without its
/// prefix `failed to unmarshal manifest: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Error {
    problem: Problem,
    document: usize,
    line: usize,
    excerpt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// The text after `---`.
    Separator(String),
    /// Go's JSON error text.
    Json {
        text: String,
    },
    Yaml(crate::Error),
    /// The bracket that exceeds the nesting limit.
    Depth(char),
}

/// The position of an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    /// Number of the document, counted from 1.
    pub(super) document: usize,
    /// The whole output.
    pub(super) text: &'a [u8],
    pub(super) offset: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Separator(rest) => write!(f, "invalid Yaml document separator: {rest}"),
            Self::Json { text } => f.write_str(text),
            Self::Yaml(error) => write!(f, "error converting YAML to JSON: {error}"),
            Self::Depth(bracket) => write!(
                f,
                "error unmarshaling JSON: while decoding JSON: invalid character '{bracket}' exceeded max depth"
            ),
        }
    }
}

impl Error {
    pub(super) fn new(problem: Problem, position: Position<'_>) -> Self {
        let Position { document, text, offset } = position;
        let (before, after) = text.split_at(offset.min(text.len()));
        // An error at the end is reported on the last line that is not empty.
        let before = if after.is_empty() { before.trim_ascii_end() } else { before };
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let excerpt = Some(excerpt(&text[start..], before.len() - start));
        Self { problem, document, line, excerpt }
    }

    /// The same error for a document in which the place is unknown. The error must be at its
    /// start.
    pub(super) fn without_place(self) -> Self {
        Self { excerpt: None, ..self }
    }

    /// The caller stopped the conversion.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.yaml().is_some_and(|yaml| yaml.cause() == Cause::Stopped)
    }

    /// Number of the invalid document, counted from 1. Empty documents count.
    #[must_use]
    pub fn document(&self) -> usize {
        self.document
    }

    /// Line of the error, counted from 1 from the start of the output. Without an
    /// [`excerpt`](Self::excerpt), the first line of the document.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The line with the error, at most [`MAX_EXCERPT_BYTES`] of it. It may
    /// contain a secret. `None` if only the document is known.
    #[must_use]
    pub fn excerpt(&self) -> Option<&str> {
        self.excerpt.as_deref()
    }

    /// The text with `…` for what it repeats of the output, which may be a secret.
    #[must_use]
    pub fn without_quote(&self) -> String {
        let problem = match self.problem.clone() {
            Problem::Separator(_) => Problem::Separator("…".to_owned()),
            Problem::Yaml(error) => Problem::Yaml(error.without_quote()),
            problem @ (Problem::Json { .. } | Problem::Depth(_)) => problem,
        };
        problem.to_string()
    }

    /// The YAML error, if the document is invalid YAML.
    #[must_use]
    pub fn yaml(&self) -> Option<&crate::Error> {
        match &self.problem {
            Problem::Yaml(error) => Some(error),
            Problem::Separator(_) | Problem::Json { .. } | Problem::Depth(_) => None,
        }
    }
}

/// The first line of `text`, or the part of it around `column`.
fn excerpt(text: &[u8], column: usize) -> String {
    let window = &text[..text.len().min(column + MAX_EXCERPT_BYTES)];
    let end = memchr::memchr(b'\n', window).unwrap_or(window.len());
    let end = end.max(column.min(window.len()));
    let start =
        if end > MAX_EXCERPT_BYTES { column.saturating_sub(MAX_EXCERPT_BYTES / 2) } else { 0 };
    let end = end.min(start + MAX_EXCERPT_BYTES);
    String::from_utf8_lossy(&window[start..end]).trim_ascii_end().to_owned()
}
