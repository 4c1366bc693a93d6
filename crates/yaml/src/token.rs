//! What the scanner hands to the parser.

use std::ops::Range;

use super::{offset::Offset, place::Place};

/// A piece of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Where it starts.
    pub(super) place: Place,
    end: Offset,
    /// Its characters, for those kinds that have a choice.
    pub(super) text: Text,
}

impl Token {
    /// A token from `place` up to `end`.
    #[inline]
    pub(super) fn new(kind: Kind, place: Place, end: usize, text: Text) -> Self {
        Self { kind, place, end: Offset::new(end), text }
    }

    /// Offset of the byte after it.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.end.get()
    }
}

/// Kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    StreamEnd,
    /// `%YAML`, of a version that is read or of another.
    VersionDirective {
        is_supported: bool,
    },
    /// `%TAG`; the text is handle and prefix, of which the handle has this length.
    TagDirective {
        handle: Offset,
    },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    /// The text is handle and suffix, of which the handle has this length.
    Tag {
        handle: Offset,
    },
    Scalar(Style),
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// `'…'`
    SingleQuoted,
    /// `"…"`
    DoubleQuoted,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

/// Where a token's characters are kept: in the document, if they stand there
/// as they are meant, or in the scanner's scratch, until the next token is
/// asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    start: Offset,
    end: Offset,
    is_scratch: bool,
}

impl Text {
    /// No characters.
    pub(super) const EMPTY: Self =
        Self { start: Offset::ZERO, end: Offset::ZERO, is_scratch: false };

    /// Characters of the document.
    #[inline]
    pub(super) fn source(start: usize, end: usize) -> Self {
        Self { start: Offset::new(start), end: Offset::new(end), is_scratch: false }
    }

    /// Characters of the scratch.
    #[inline]
    pub(super) fn scratch(start: usize, end: usize) -> Self {
        Self { is_scratch: true, ..Self::source(start, end) }
    }

    /// Whether they are in the scratch.
    #[inline]
    pub(super) fn is_scratch(self) -> bool {
        self.is_scratch
    }

    /// Where they are.
    #[inline]
    pub(super) fn range(self) -> Range<usize> {
        self.start.get()..self.end.get()
    }
}
