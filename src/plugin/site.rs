//! A definition's values, and where they stand in a file.

use cmp_yaml::{Tree, tree::Node};

use super::{
    diagnostic::Region,
    manifest::{Step, folds_to},
    passage::{Map, Passage},
};

/// A definition in a document.
#[derive(Debug)]
pub(super) struct Site<'s> {
    pub(super) passage: &'s Passage<'s>,
    /// None for what can be converted and not be shown.
    pub(super) tree: Option<&'s Tree<'s>>,
    /// From the document to the definition.
    pub(super) prefix: &'s [Step],
}

impl<'s> Site<'s> {
    /// Where the value stands, or else what is closest to it: an entry that is
    /// missing is missed in what is around it.
    pub(super) fn value(&self, path: &[Step]) -> Option<Region> {
        let (trail, is_complete) = self.trail(path);
        let (key, value) = *trail.last()?;
        let node = match key {
            // What lacks an entry is best known by its own key.
            Some(key) if !is_complete || is_empty(value) => key,
            Some(_) | None => value,
        };
        Some(self.region(node))
    }

    /// Where the value's key stands, or else what is closest to it.
    pub(super) fn key(&self, path: &[Step]) -> Option<Region> {
        let (trail, _) = self.trail(path);
        let (key, value) = *trail.last()?;
        Some(self.region(key.unwrap_or(value)))
    }

    /// The node of a value.
    pub(super) fn node(&self, path: &[Step]) -> Option<Node<'s>> {
        let (trail, is_complete) = self.trail(path);
        trail.last().filter(|_| is_complete).map(|(_, value)| *value)
    }

    /// Where a part of a scalar's text stands.
    pub(super) fn part(&self, scalar: Node<'s>, start: usize, end: usize) -> Region {
        let map: Map = self.passage.map_of(scalar);
        let whole = Passage { text: &[], base: 0, map: &map, file: self.passage.file };
        whole.region(start, end)
    }

    /// Where a node stands.
    pub(super) fn region(&self, node: Node<'_>) -> Region {
        let span = node.span();
        self.passage.region(span.start.offset, span.end.offset)
    }

    /// The definition itself.
    pub(super) fn root(&self) -> Option<Node<'s>> {
        self.node(&[])
    }

    /// Keys and values on the way, as far as it goes, and whether it goes all
    /// the way.
    fn trail(&self, path: &[Step]) -> (Vec<(Option<Node<'s>>, Node<'s>)>, bool) {
        let Some(tree) = self.tree else { return (Vec::new(), false) };
        let mut trail = vec![(None, tree.root())];
        for step in self.prefix.iter().chain(path) {
            let inside = trail.last().and_then(|(_, node)| enter(*node, step));
            let Some(inside) = inside else { return (trail, false) };
            trail.push(inside);
        }
        (trail, true)
    }
}

fn is_empty(node: Node<'_>) -> bool {
    let span = node.span();
    span.start.offset == span.end.offset
}

/// The entry as it is spelt, or as Go would take it; else that of a merge.
fn enter<'s>(node: Node<'s>, step: &Step) -> Option<(Option<Node<'s>>, Node<'s>)> {
    match step {
        Step::Index(index) => node.items().nth(*index).map(|item| (None, item)),
        Step::Key(wanted) => {
            let entry = |is_wanted: &dyn Fn(&str) -> bool| {
                node.entries().filter(|(key, _)| key.text().is_some_and(is_wanted)).last()
            };
            entry(&|key| key == wanted)
                .or_else(|| entry(&|key| folds_to(key, wanted)))
                .map(|(key, value)| (Some(key), value))
                .or_else(|| merged(node, step))
        }
    }
}

/// Merges within merges are not followed.
fn merged<'s>(node: Node<'s>, step: &Step) -> Option<(Option<Node<'s>>, Node<'s>)> {
    let wanted = step.key()?;
    let merges = node.entries().filter(|(key, _)| key.is_merge()).map(|(_, value)| value);
    let sources = merges.flat_map(|value| std::iter::once(value).chain(value.items()));
    let mut entries = sources.flat_map(Node::entries);
    entries.find(|(key, _)| key.text() == Some(wanted)).map(|(key, value)| (Some(key), value))
}
