//! Events: the parser's output.

use super::{
    offset::Offset,
    place::Place,
    token::{Style, Text},
};

/// The start of a document or node, or its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    /// Start of the event's own characters, without anchor and tag.
    pub(super) place: Place,
    end: Offset,
    /// The node's anchor, which aliases refer to.
    pub(super) anchor: Option<Text>,
}

impl Event {
    /// An event without an anchor.
    #[inline]
    pub(super) fn new(kind: EventKind, place: Place, end: usize) -> Self {
        Self { kind, place, end: Offset::new(end), anchor: None }
    }

    /// Offset of the byte after the event's own characters.
    pub(super) fn end(&self) -> usize {
        self.end.get()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum EventKind {
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    /// An alias, with the anchor's name.
    Alias(Text),
    Scalar(Scalar),
    SequenceStart,
    SequenceEnd,
    MappingStart,
    MappingEnd,
}

/// A node that is neither a sequence nor a mapping.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar {
    pub(super) text: Text,
    /// The explicit tag.
    pub(super) tag: Tag,
    /// The quoting or block style.
    pub(super) style: Style,
}

impl Scalar {
    /// The scalar where the document leaves a value out.
    pub(super) const EMPTY: Self = Self { text: Text::EMPTY, tag: Tag::None, style: Style::Plain };
}

/// The tags that change the meaning of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    /// `!` without a name.
    NonSpecific,
    Str,
    Int,
    Float,
    Bool,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Any other tag. It makes the scalar a string.
    Other,
}

/// Length in bytes of the longest tag in [`Tag`].
const MAX_KNOWN_BYTES: usize = b"tag:yaml.org,2002:timestamp".len();

impl Tag {
    /// The tag with this prefix and suffix. A long prefix is never copied,
    /// because every node may use it.
    pub(super) fn from_parts(prefix: &[u8], suffix: &[u8]) -> Self {
        if prefix.len() + suffix.len() > MAX_KNOWN_BYTES {
            return Self::Other;
        }
        Self::from_name(&[prefix, suffix].concat())
    }

    fn from_name(name: &[u8]) -> Self {
        match name.strip_prefix(b"tag:yaml.org,2002:") {
            Some(b"str") => Self::Str,
            Some(b"int") => Self::Int,
            Some(b"float") => Self::Float,
            Some(b"bool") => Self::Bool,
            Some(b"null") => Self::Null,
            Some(b"timestamp") => Self::Timestamp,
            Some(b"binary") => Self::Binary,
            Some(b"merge") => Self::Merge,
            None if name == b"!" => Self::NonSpecific,
            Some(_) | None => Self::Other,
        }
    }

    /// The tag's short form in error texts.
    pub(super) fn short(self) -> &'static str {
        match self {
            Self::Str => "!!str",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Bool => "!!bool",
            Self::Null => "!!null",
            Self::Timestamp => "!!timestamp",
            Self::Binary => "!!binary",
            Self::Merge => "!!merge",
            Self::None | Self::NonSpecific | Self::Other => "",
        }
    }
}
