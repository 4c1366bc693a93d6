//! A node of a document, seen from outside.

use super::{Content, Data, Tree, Value};
use crate::{
    place::{Place, Span},
    token::Style,
};

/// A node of a [`Tree`]. An alias shows what it stands for, but stands where
/// it stands; what contains itself by an alias never ends.
#[derive(Debug, Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree<'t>,
    number: usize,
}

/// What a node is, after YAML 1.1's rules for scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing, or `null`.
    Null,
    /// `true`, `yes`, `on` and their like.
    Bool,
    /// A whole number.
    Int,
    /// Any other number.
    Float,
    /// Characters.
    String,
    /// A list.
    Sequence,
    /// Keys and values.
    Mapping,
}

/// The values of a sequence.
pub type Items<'t> = Box<dyn Iterator<Item = Node<'t>> + 't>;

/// The keys and values of a mapping, as written: repeated keys and merges too.
pub type Entries<'t> = Box<dyn Iterator<Item = (Node<'t>, Node<'t>)> + 't>;

impl<'t> Node<'t> {
    pub(super) fn new(tree: &'t Tree<'_>, number: usize) -> Self {
        Self { tree, number }
    }

    /// What it is.
    #[must_use]
    pub fn shape(self) -> Shape {
        match self.content() {
            Some(Content::Sequence(_)) => Shape::Sequence,
            Some(Content::Mapping(_)) => Shape::Mapping,
            Some(Content::Scalar { value, .. }) => match value {
                Value::Null => Shape::Null,
                Value::Bool(_) => Shape::Bool,
                Value::Int(_) | Value::Uint(_) => Shape::Int,
                Value::Float(_) => Shape::Float,
                Value::Str | Value::Timestamp | Value::Binary => Shape::String,
            },
            Some(Content::Alias(_)) | None => Shape::Null,
        }
    }
}

impl<'t> Node<'t> {
    /// The characters of a scalar; of `!!binary` the encoded ones.
    #[must_use]
    pub fn text(self) -> Option<&'t str> {
        match self.content() {
            Some(Content::Scalar { text, .. }) => Some(text),
            Some(Content::Sequence(_) | Content::Mapping(_) | Content::Alias(_)) | None => None,
        }
    }

    /// How a scalar is written.
    #[must_use]
    pub fn style(self) -> Option<Style> {
        match self.content() {
            Some(Content::Scalar { style, .. }) => Some(*style),
            Some(Content::Sequence(_) | Content::Mapping(_) | Content::Alias(_)) | None => None,
        }
    }

    /// Whether it is the key `<<`, whose value's entries count as the
    /// mapping's own.
    #[must_use]
    pub fn is_merge(self) -> bool {
        matches!(
            self.data().map(|data| &data.content),
            Some(Content::Scalar { is_merge: true, .. })
        )
    }

    /// The values of a sequence; none of anything else.
    #[must_use]
    pub fn items(self) -> Items<'t> {
        match self.content() {
            Some(Content::Sequence(items)) => {
                Box::new(items.iter().map(move |&number| Self { number, ..self }))
            }
            Some(Content::Scalar { .. } | Content::Mapping(_) | Content::Alias(_)) | None => {
                Box::new(std::iter::empty())
            }
        }
    }

    /// The keys and values of a mapping; none of anything else.
    #[must_use]
    pub fn entries(self) -> Entries<'t> {
        match self.content() {
            Some(Content::Mapping(entries)) => {
                Box::new(entries.iter().map(move |&(key, value)| {
                    (Self { number: key, ..self }, Self { number: value, ..self })
                }))
            }
            Some(Content::Scalar { .. } | Content::Sequence(_) | Content::Alias(_)) | None => {
                Box::new(std::iter::empty())
            }
        }
    }

    /// The value that counts for a key: the last one.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        let entries = self.entries().filter(|(name, _)| name.text() == Some(key));
        entries.last().map(|(_, value)| value)
    }

    /// Where it stands, without its anchor and tag. A collection by
    /// indentation ends where the next thing starts.
    #[must_use]
    pub fn span(self) -> Span {
        let source = &self.tree.source;
        let (start, end) = self.data().map_or((0, 0), |data| (data.start.offset(), data.end));
        Span { start: source.mark(start), end: source.mark(end.max(start)) }
    }

    pub(crate) fn value(self) -> Option<Value> {
        match self.content() {
            Some(Content::Scalar { value, .. }) => Some(*value),
            Some(Content::Sequence(_) | Content::Mapping(_) | Content::Alias(_)) | None => None,
        }
    }

    pub(crate) fn place(self) -> Place {
        self.data().map_or(Place::default(), |data| data.start)
    }

    fn data(self) -> Option<&'t Data> {
        self.tree.nodes.get(self.number)
    }

    /// What it is, or what it is an alias of.
    fn content(self) -> Option<&'t Content> {
        match &self.data()?.content {
            Content::Alias(target) => self.tree.nodes.get(*target).map(|data| &data.content),
            content @ (Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_)) => {
                Some(content)
            }
        }
    }
}
