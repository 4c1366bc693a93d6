//! Where something stands in a document.

use super::offset::Offset;

/// A position in the text that the scanner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    offset: Offset,
    line: Offset,
}

impl Place {
    /// The place with so many bytes and line breaks before it.
    #[inline]
    pub(super) fn new(offset: usize, line: usize) -> Self {
        Self { offset: Offset::new(offset), line: Offset::new(line) }
    }

    /// Bytes before it.
    #[inline]
    pub(super) fn offset(self) -> usize {
        self.offset.get()
    }

    /// Line breaks before it.
    #[inline]
    pub(super) fn line(self) -> usize {
        self.line.get()
    }
}

/// A position for people and editors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes before it, from the start of the document.
    pub offset: usize,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

/// From a position up to, but not including, another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it starts.
    pub start: Mark,
    /// Where it has ended.
    pub end: Mark,
}
