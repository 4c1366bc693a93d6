//! Tokens: the scanner's output.

use std::ops::Range;

use super::{offset::Offset, place::Place};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) place: Place,
    end: Offset,
    /// The characters, for kinds whose characters vary.
    pub(super) text: Text,
}

impl Token {
    /// A token from `place` up to `end`.
    #[inline]
    pub(super) fn new(kind: TokenKind, place: Place, end: usize, text: Text) -> Self {
        Self { kind, place, end: Offset::new(end), text }
    }

    /// Offset of the byte after the token.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.end.get()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    /// `%YAML`. `is_supported` is true for version 1.1.
    VersionDirective {
        is_supported: bool,
    },
    /// `%TAG`. The text is the handle and the prefix. `handle` is the handle's
    /// length in bytes.
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
    /// A tag. The text is the handle and the suffix. `handle` is the handle's
    /// length in bytes.
    Tag {
        handle: Offset,
    },
    Scalar(Style),
}

/// The quoting or block style of a scalar.
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

/// A range of characters, either of the document or of the scanner's scratch
/// buffer. The scratch buffer holds texts that differ from the document, until
/// the next token is scanned.
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

    /// A range of the document.
    #[inline]
    pub(super) fn source(start: usize, end: usize) -> Self {
        Self { start: Offset::new(start), end: Offset::new(end), is_scratch: false }
    }

    /// A range of the scratch buffer.
    #[inline]
    pub(super) fn scratch(start: usize, end: usize) -> Self {
        Self { is_scratch: true, ..Self::source(start, end) }
    }

    /// True for a range of the scratch buffer.
    #[inline]
    pub(super) fn is_scratch(self) -> bool {
        self.is_scratch
    }

    /// The range in bytes.
    #[inline]
    pub(super) fn range(self) -> Range<usize> {
        self.start.get()..self.end.get()
    }
}
