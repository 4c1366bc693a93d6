//! Errors of one document.

use std::{borrow::Cow, mem, ops::Range};

use super::{event::Tag, place::Place};

/// Longest part of the document that an error repeats, in bytes. go-yaml has no
/// such limit.
const MAX_SHOWN_BYTES: usize = 16 << 10;

#[expect(clippy::error_impl_error, reason = "`yaml::Error` is what it is called")]
/// The reason why a document cannot be converted.
///
/// The text is the same as Argo CD's, so that a search for it finds Argo CD's
/// documentation. go-yaml counts lines wrongly: the parser's lines are one too
/// small, and the first line is never named. [`Error::line`] is correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    text: String,
    /// The part of the text that repeats the document.
    quote: Range<usize>,
    place: Option<Place>,
    cause: Cause,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The bytes are not characters that YAML allows.
    Encoding,
    /// The text is not YAML 1.1.
    Syntax,
    /// A tag, key, merge or alias is invalid.
    Value,
    /// The value has no JSON form.
    Json,
    /// Nesting or aliases exceed a limit that go-yaml has too.
    Complexity,
    /// The document exceeds a limit of this crate. go-yaml has no such limit.
    Limit,
    /// The caller stopped the conversion.
    Stopped,
}

impl Error {
    /// A character that YAML does not allow. go-yaml names no line here.
    pub(super) fn reader(problem: &str, place: Place) -> Self {
        Self::new(format!("yaml: {problem}"), Some(place), Cause::Encoding)
    }

    /// Text that is not a token.
    pub(super) fn scanner(problem: &str, place: Place) -> Self {
        let text = match place.line() {
            0 => format!("yaml: {problem}"),
            line => format!("yaml: line {}: {problem}", line + 1),
        };
        Self::new(text, Some(place), Cause::Syntax)
    }

    /// A token that the grammar does not allow here.
    pub(super) fn parser(problem: &str, place: Place) -> Self {
        let text = match place.line() {
            0 => format!("yaml: {problem}"),
            line => format!("yaml: line {line}: {problem}"),
        };
        Self::new(text, Some(place), Cause::Syntax)
    }

    /// A node without a valid meaning.
    pub(super) fn value(problem: &str, place: Place) -> Self {
        Self::new(format!("yaml: {problem}"), Some(place), Cause::Value)
    }

    /// A node without a valid meaning. The text repeats a part of it, with words before and
    /// after.
    pub(super) fn quoting([before, after]: [&str; 2], quote: &str, place: Place) -> Self {
        let mut error = Self::value(before, place);
        error.repeat(quote);
        error.0.text.push_str(after);
        error
    }

    /// An alias of an anchor that does not exist.
    pub(super) fn unknown_anchor(name: &[u8], place: Place) -> Self {
        Self::quoting(["unknown anchor '", "' referenced"], &shown(name), place)
    }

    /// A scalar that its explicit tag does not allow.
    pub(super) fn wrong_tag(text: &[u8], found: Tag, tag: Tag, place: Place) -> Self {
        let before = format!("cannot decode {} `", found.short());
        let after = format!("` as a {}", tag.short());
        Self::quoting([&before, &after], &shown(text), place)
    }

    /// A value that JSON cannot express. `text` is the complete message.
    pub(super) fn json(text: String, place: Place) -> Self {
        Self::new(text, Some(place), Cause::Json)
    }

    /// A key that JSON cannot express. `kind` is Go's name of its type. The text repeats the
    /// entry.
    pub(super) fn key(kind: &str, entry: &str, place: Place) -> Self {
        let mut error = Self::json(format!("unsupported map key of type: {kind}, "), place);
        error.repeat(entry);
        error
    }

    /// The same error as one of [`Cause::Complexity`].
    pub(super) fn of_complexity(mut self) -> Self {
        self.0.cause = Cause::Complexity;
        self
    }

    /// The document or its JSON exceeds a limit.
    pub(super) fn limit(text: String) -> Self {
        Self::new(text, None, Cause::Limit)
    }

    /// The caller stopped the conversion.
    pub(super) fn stopped() -> Self {
        Self::new("the conversion was stopped".to_owned(), None, Cause::Stopped)
    }

    fn new(text: String, place: Option<Place>, cause: Cause) -> Self {
        Self(Box::new(Details { text, quote: 0..0, place, cause }))
    }

    /// The same error in a document with `skipped` more bytes at its start.
    pub(super) fn after(mut self, skipped: usize) -> Self {
        let moved = |place: Place| Place::new(place.offset() + skipped, place.line());
        self.0.place = self.0.place.map(moved);
        self
    }

    /// Appends a part of the document to the text.
    fn repeat(&mut self, quote: &str) {
        let Details { text, quote: range, .. } = &mut *self.0;
        *range = text.len()..text.len() + quote.len();
        text.push_str(quote);
    }

    /// The error with `…` for what its text repeats of the document, which may be a secret.
    #[must_use]
    pub fn without_quote(mut self) -> Self {
        let Details { text, quote, .. } = &mut *self.0;
        let quote = mem::take(quote);
        if !quote.is_empty() {
            text.replace_range(quote, "…");
        }
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Line of the document, counted from 1. `None` if the error has no line.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.0.place.map(|place| place.line() + 1)
    }

    /// Offset in bytes from the start of the document. `None` if the error has
    /// no position.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.place.map(Place::offset)
    }
}

/// `text` as lossy UTF-8, cut at [`MAX_SHOWN_BYTES`].
pub(super) fn shown(text: &[u8]) -> Cow<'_, str> {
    match text.split_at_checked(MAX_SHOWN_BYTES) {
        Some((start, [_, ..])) => String::from_utf8_lossy(start) + "…",
        Some(_) | None => String::from_utf8_lossy(text),
    }
}
