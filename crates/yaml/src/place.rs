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
