//! The nodes of a document and their positions, for diagnostics.

mod build;
mod node;

pub use self::node::{Entries, Items, Node, Shape};
use super::{
    error::Error,
    parser::{self, Parser},
    place::Place,
    reader::Source,
    scalar::Value,
    token::Style,
};

/// Largest number of nodes in a tree. Trees are meant for files that people
/// write, which have a few hundred nodes.
pub const MAX_NODES: usize = 1 << 20;

/// The nodes of a document. They refer to each other by index, so deep nesting
/// does not use the stack.
#[derive(Debug)]
pub struct Tree<'a> {
    source: Source<'a>,
    nodes: Vec<Data>,
    root: usize,
}

#[derive(Debug)]
struct Data {
    start: Place,
    end: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Scalar {
        text: Box<str>,
        style: Style,
        value: Value,
        is_merge: bool,
    },
    Sequence(Vec<usize>),
    Mapping(Vec<(usize, usize)>),
    /// Index of the node that the alias refers to.
    Alias(usize),
}

impl<'a> Tree<'a> {
    /// Parses the first document. `None` if there is no document. More than
    /// [`MAX_NODES`] nodes are an error.
    pub fn new(document: &'a [u8]) -> Result<Option<Self>, Error> {
        let source = Source::new(document)?;
        let parser = Parser::new(&source, parser::Buffers::default());
        let built = build::Builder::default().build(parser);
        let built = built.map_err(|error| error.after(source.skipped))?;
        Ok(built.map(|(nodes, root)| Self { source, nodes, root }))
    }

    /// The document's root node.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node::new(self, self.root)
    }

    /// The innermost collection used as a key that starts at `offset`.
    pub(super) fn key_at(&self, offset: usize) -> Option<Node<'_>> {
        let keys = self.mappings().flatten().map(|&(key, _)| Node::new(self, key));
        keys.filter(|key| key.place().offset() == offset && key.value().is_none()).last()
    }

    /// The first key that `is_wanted` accepts, and the value of the last equal
    /// key.
    pub(super) fn entry(&self, is_wanted: impl Fn(Value) -> bool) -> Option<(Node<'_>, Node<'_>)> {
        let node = |number: usize| Node::new(self, number);
        self.mappings().find_map(|entries| {
            let &(key, _) =
                entries.iter().find(|(key, _)| node(*key).value().is_some_and(&is_wanted))?;
            let is_same = |(other, _): &&(usize, usize)| node(*other).value() == node(key).value();
            let &(_, value) = entries.iter().rfind(is_same)?;
            Some((node(key), node(value)))
        })
    }

    /// A collection contains an alias of itself, so a walk along aliases may not end.
    pub(super) fn is_endless(&self) -> bool {
        let end = |number: usize| self.nodes.get(number).map_or(0, |node| node.end);
        self.nodes.iter().any(|node| match node.content {
            Content::Alias(target) => node.end <= end(target),
            Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => false,
        })
    }

    fn mappings(&self) -> impl Iterator<Item = &Vec<(usize, usize)>> {
        self.nodes.iter().filter_map(|node| match &node.content {
            Content::Mapping(entries) => Some(entries),
            Content::Scalar { .. } | Content::Sequence(_) | Content::Alias(_) => None,
        })
    }
}
