//! A document's nodes, for those who look at its values.

mod build;
mod node;

pub use self::node::{Entries, Items, Node, Shape};
use super::{
    error::Error, parser::Parser, place::Place, reader::Source, scalar::Value, token::Style,
};

/// How many nodes a tree may have. It is meant for definitions that people
/// write; the largest we have seen has a few hundred.
pub const MAX_NODES: usize = 1 << 20;

/// The nodes of a document, by number, so that depth never costs stack.
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
    /// The same as another node.
    Alias(usize),
}

impl<'a> Tree<'a> {
    /// Reads the first document; `None` if there is none.
    pub fn new(document: &'a [u8]) -> Result<Option<Self>, Error> {
        let source = Source::new(document)?;
        let built = build::Builder::default().build(Parser::new(&source))?;
        Ok(built.map(|(nodes, root)| Self { source, nodes, root }))
    }

    /// The document's node.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node::new(self, self.root)
    }

    /// The innermost collection that is a key and starts here.
    pub(super) fn key_at(&self, offset: usize) -> Option<Node<'_>> {
        let keys = self.mappings().flatten().map(|&(key, _)| Node::new(self, key));
        keys.filter(|key| key.place().offset() == offset && key.value().is_none()).last()
    }

    /// The first key that meets the condition, and the value that counts for
    /// keys like it.
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

    fn mappings(&self) -> impl Iterator<Item = &Vec<(usize, usize)>> {
        self.nodes.iter().filter_map(|node| match &node.content {
            Content::Mapping(entries) => Some(entries),
            Content::Scalar { .. } | Content::Sequence(_) | Content::Alias(_) => None,
        })
    }
}
