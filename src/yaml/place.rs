//! Where something stands in a document.

/// A position in the text that the scanner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Bytes before it.
    pub(super) offset: usize,
    /// Line breaks before it.
    pub(super) line: usize,
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
