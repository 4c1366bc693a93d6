//! Positions in a document.

use super::offset::Offset;

/// A position in the scanner's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    offset: Offset,
    line: Offset,
}

impl Place {
    /// A position after `offset` bytes and `line` line breaks.
    #[inline]
    pub(super) fn new(offset: usize, line: usize) -> Self {
        Self { offset: Offset::new(offset), line: Offset::new(line) }
    }

    /// Bytes before the position.
    #[inline]
    pub(super) fn offset(self) -> usize {
        self.offset.get()
    }

    /// Line breaks before the position.
    #[inline]
    pub(super) fn line(self) -> usize {
        self.line.get()
    }
}

/// A position for diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes before it, from the start of the document.
    pub offset: usize,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

/// A range from `start` to `end`, without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First character of the range.
    pub start: Mark,
    /// Position after the last character.
    pub end: Mark,
}
