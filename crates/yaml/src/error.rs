//! Why a document is not what its author meant.

use std::borrow::Cow;

use super::{event::Tag, place::Place};

/// How much of the document an error's text repeats. Upstream knows no bound,
/// but nobody reads so far.
const MAX_SHOWN_BYTES: usize = 16 << 10;

#[expect(clippy::error_impl_error, reason = "`yaml::Error` is what it is called")]
/// What is wrong with a document.
///
/// Its text is the one Argo CD's own decoder gives, so that people find it.
/// That decoder miscounts lines (a parser's line is one too small, the first
/// line is never named); [`Error::line`] counts right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    text: String,
    place: Option<Place>,
    cause: Cause,
}

/// Which kind of trouble an [`Error`] tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The bytes are no characters that YAML allows.
    Encoding,
    /// The bytes are no YAML 1.1.
    Syntax,
    /// A tag, key, merge or alias asks for what cannot be had.
    Value,
    /// The value has no JSON form.
    Json,
    /// A bound of ours, which upstream does not have.
    Limit,
}

impl Error {
    /// Not a character that YAML allows; upstream names no line.
    pub(super) fn reader(problem: &str, place: Place) -> Self {
        Self::new(format!("yaml: {problem}"), Some(place), Cause::Encoding)
    }

    /// No token starts or goes on here.
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

    /// A node that means nothing.
    pub(super) fn value(problem: &str, place: Place) -> Self {
        Self::new(format!("yaml: {problem}"), Some(place), Cause::Value)
    }

    /// An alias of nothing.
    pub(super) fn unknown_anchor(name: &[u8], place: Place) -> Self {
        Self::value(&format!("unknown anchor '{}' referenced", shown(name)), place)
    }

    /// A scalar is not what its tag says.
    pub(super) fn wrong_tag(text: &[u8], (found, tag): (Tag, Tag), place: Place) -> Self {
        let (found, text, tag) = (found.short(), shown(text), tag.short());
        Self::value(&format!("cannot decode {found} `{text}` as a {tag}"), place)
    }

    /// A value without a JSON form; `text` is complete.
    pub(super) fn json(text: String, place: Option<Place>) -> Self {
        Self::new(text, place, Cause::Json)
    }

    /// The document is larger than we are willing to convert.
    pub(super) fn limit(text: String) -> Self {
        Self::new(text, None, Cause::Limit)
    }

    fn new(text: String, place: Option<Place>, cause: Cause) -> Self {
        Self(Box::new(Details { text, place, cause }))
    }

    /// Which kind of trouble this is.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Line of the document, counted from 1, where one is to blame.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.0.place.map(|place| place.line() + 1)
    }

    /// Offset in bytes within the document, where one is to blame.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.place.map(Place::offset)
    }
}

/// A part of a document, as far as it is shown.
pub(super) fn shown(text: &[u8]) -> Cow<'_, str> {
    match text.split_at_checked(MAX_SHOWN_BYTES) {
        Some((start, [_, ..])) => String::from_utf8_lossy(start) + "…",
        Some(_) | None => String::from_utf8_lossy(text),
    }
}
