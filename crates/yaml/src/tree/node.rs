//! Public view of a tree's nodes.

use std::ops::Range;

use super::{Content, Data, Tree, Value};
use crate::{place::Place, token::Style};

/// A node of a [`Tree`]. An alias has the content of its target, but its own
/// position. A node that contains an alias of itself has endless descendants,
/// so a recursive walk needs a depth limit.
#[derive(Debug, Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree<'t>,
    number: usize,
}

/// The type of a node by the rules of YAML 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An empty node, `~` or `null`.
    Null,
    /// `true`, `yes`, `on`, `y` or their opposites.
    Bool,
    /// An integer.
    Int,
    /// Any other number.
    Float,
    /// Any other scalar.
    String,
    /// A sequence.
    Sequence,
    /// A mapping.
    Mapping,
}

/// Iterator over the items of a sequence.
pub type Items<'t> = Box<dyn Iterator<Item = Node<'t>> + 't>;

/// Iterator over the entries of a mapping in document order. Repeated keys and
/// merge keys are included.
pub type Entries<'t> = Box<dyn Iterator<Item = (Node<'t>, Node<'t>)> + 't>;

impl<'t> Node<'t> {
    pub(super) fn new(tree: &'t Tree<'_>, number: usize) -> Self {
        Self { tree, number }
    }

    /// The type of the node.
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
    /// The characters of a scalar, `None` for a collection. A `!!binary` scalar
    /// is not decoded.
    #[must_use]
    pub fn text(self) -> Option<&'t str> {
        match self.content() {
            Some(Content::Scalar { text, .. }) => Some(text),
            Some(Content::Sequence(_) | Content::Mapping(_) | Content::Alias(_)) | None => None,
        }
    }

    /// The style of a scalar, `None` for a collection.
    #[must_use]
    pub fn style(self) -> Option<Style> {
        match self.content() {
            Some(Content::Scalar { style, .. }) => Some(*style),
            Some(Content::Sequence(_) | Content::Mapping(_) | Content::Alias(_)) | None => None,
        }
    }

    /// The node is the merge key `<<`.
    #[must_use]
    pub fn is_merge(self) -> bool {
        matches!(
            self.data().map(|data| &data.content),
            Some(Content::Scalar { is_merge: true, .. })
        )
    }

    /// The items of a sequence; empty for any other node.
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

    /// The entries of a mapping; empty for any other node.
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

    /// The value of a key. Of equal keys the last one counts.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        let entries = self.entries().filter(|(name, _)| name.text() == Some(key));
        entries.last().map(|(_, value)| value)
    }

    /// The range of the node in bytes from the start of the document, without its anchor
    /// and tag. A block collection ends at the start of the next token.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        let (start, end) = self.data().map_or((0, 0), |data| (data.start.offset(), data.end));
        let skipped = self.tree.source.skipped;
        start + skipped..end.max(start) + skipped
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

    /// The content of the node or, for an alias, of its target.
    fn content(self) -> Option<&'t Content> {
        match &self.data()?.content {
            Content::Alias(target) => self.tree.nodes.get(*target).map(|data| &data.content),
            content @ (Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_)) => {
                Some(content)
            }
        }
    }
}
