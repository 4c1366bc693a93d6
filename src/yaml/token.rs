//! What the scanner hands to the parser.

use super::place::Place;

/// A piece of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Where it starts.
    pub(super) place: Place,
    /// Offset of the byte after it.
    pub(super) end: usize,
    /// Its characters, for those kinds that have a choice.
    pub(super) text: Text,
}

/// Kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    StreamEnd,
    /// `%YAML`, of a version that is read or of another.
    VersionDirective { is_supported: bool },
    /// `%TAG`; the text is handle and prefix, of which the handle has this length.
    TagDirective { handle: usize },
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
    Tag { handle: usize },
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

/// Where a token's characters are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// They stand in the document as they are meant.
    Source { start: usize, end: usize },
    /// They were put together in the scanner's scratch, which keeps them
    /// until the next token is asked for.
    Scratch { start: usize, end: usize },
}

impl Text {
    /// No characters.
    pub(super) const EMPTY: Self = Self::Source { start: 0, end: 0 };
}
