//! What the parser hands to the writers.

use super::{
    offset::Offset,
    place::Place,
    token::{Style, Text},
};

/// A node, or an end of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// What it is.
    pub(super) kind: Kind,
    /// Where its own characters start.
    pub(super) place: Place,
    end: Offset,
    /// The name that aliases call it by.
    pub(super) anchor: Option<Text>,
}

impl Event {
    /// An event of a node without a name.
    #[inline]
    pub(super) fn new(kind: Kind, place: Place, end: usize) -> Self {
        Self { kind, place, end: Offset::new(end), anchor: None }
    }

    /// Offset of the byte after its own characters.
    pub(super) fn end(&self) -> usize {
        self.end.get()
    }
}

/// Kinds of events.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    /// A node again, by the name it was given.
    Alias(Text),
    Scalar(Scalar),
    SequenceStart,
    SequenceEnd,
    MappingStart,
    MappingEnd,
}

/// Characters that mean a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar {
    /// The characters.
    pub(super) text: Text,
    /// What the author says they are.
    pub(super) tag: Tag,
    /// How they were written.
    pub(super) style: Style,
}

impl Scalar {
    /// What stands where nothing is written.
    pub(super) const EMPTY: Self = Self { text: Text::EMPTY, tag: Tag::None, style: Style::Plain };
}

/// Tags, as far as they make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    /// A bare `!`
    NonSpecific,
    Str,
    Int,
    Float,
    Bool,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Any other: a scalar with it is the string that stands there.
    Other,
}

/// Length in bytes of the longest tag that makes a difference.
const MAX_KNOWN_BYTES: usize = b"tag:yaml.org,2002:timestamp".len();

impl Tag {
    /// The tag that a prefix and a suffix make together. A long prefix is never
    /// copied, because every node of a document may use it.
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

    /// How error texts call it.
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
