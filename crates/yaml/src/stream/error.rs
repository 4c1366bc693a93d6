//! Why an output is not what its plugin meant.

use std::fmt;

/// How much of the line to blame an error shows.
pub const MAX_EXCERPT_BYTES: usize = 160;

#[expect(clippy::error_impl_error, reason = "`stream::Error` is what it is called")]
/// What is wrong with a plugin's output, in Argo CD's own words, less the
/// words `failed to unmarshal manifest: ` that it always puts before them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Error {
    cause: Cause,
    document: usize,
    line: usize,
    excerpt: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// What stands behind a separator.
    Separator(String),
    /// Go's words.
    Json {
        text: String,
    },
    Yaml(crate::Error),
    /// The bracket that opens one collection too many.
    Depth(char),
}

/// Where an error is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    /// Counted from 1.
    pub(super) document: usize,
    /// The whole output.
    pub(super) text: &'a [u8],
    pub(super) offset: usize,
}

impl fmt::Display for Cause {
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
    pub(super) fn new(cause: Cause, position: Position<'_>) -> Self {
        let Position { document, text, offset } = position;
        let (before, after) = text.split_at(offset.min(text.len()));
        // At the very end, the last line with anything in it is meant.
        let before = if after.is_empty() { before.trim_ascii_end() } else { before };
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Self { cause, document, line, excerpt: excerpt(&text[start..], before.len() - start) }
    }

    /// The document to blame, counted from 1, empty ones included.
    #[must_use]
    pub fn document(&self) -> usize {
        self.document
    }

    /// The line to blame, counted from 1 through the whole output.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The line to blame, or as much as [`MAX_EXCERPT_BYTES`] allow of it. It
    /// may hold a secret.
    #[must_use]
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }

    /// What the YAML engine has to say, if it is the one who complains.
    #[must_use]
    pub fn yaml(&self) -> Option<&crate::Error> {
        match &self.cause {
            Cause::Yaml(error) => Some(error),
            Cause::Separator(_) | Cause::Json { .. } | Cause::Depth(_) => None,
        }
    }
}

/// The line that `text` starts with, or the part of it around `column`.
fn excerpt(text: &[u8], column: usize) -> String {
    let window = &text[..text.len().min(column + MAX_EXCERPT_BYTES)];
    let end = memchr::memchr(b'\n', window).unwrap_or(window.len());
    let end = end.max(column.min(window.len()));
    let start =
        if end > MAX_EXCERPT_BYTES { column.saturating_sub(MAX_EXCERPT_BYTES / 2) } else { 0 };
    let end = end.min(start + MAX_EXCERPT_BYTES);
    String::from_utf8_lossy(&window[start..end]).trim_ascii_end().to_owned()
}
