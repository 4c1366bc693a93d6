//! Finds the regions of a definition's values in its file.

use std::{collections::HashMap, ops::Range};

use cmp_yaml::{Tree, tree::Node};

use super::{
    diagnostic::Region,
    manifest::{Step, folds_to},
    passage::{Map, Passage},
};

/// Finds the values of one definition in a document.
#[derive(Debug)]
pub(super) struct Locator<'s> {
    pub(super) passage: &'s Passage<'s>,
    /// `None` if the document can be converted to JSON but is too large for a tree.
    pub(super) tree: Option<&'s Tree<'s>>,
    /// Path from the document to the definition.
    pub(super) prefix: &'s [Step],
}

impl<'s> Locator<'s> {
    /// The region of a value. For a missing entry, this is the region of the
    /// innermost map or list that exists on the path.
    pub(super) fn value(&self, path: &[Step]) -> Option<Region> {
        let (trail, is_complete) = self.trail(path);
        let (key, value) = *trail.last()?;
        let node = match key {
            // A missing entry is shown at the key of the map that lacks it.
            Some(key) if !is_complete || is_empty(value) => key,
            Some(_) | None => value,
        };
        Some(self.region(node))
    }

    /// The region of a value's key. For a missing entry, this is that of the innermost map
    /// or list that exists on the path.
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

    /// The first key of a path that does not exist, and the keys that its map has.
    pub(super) fn missing<'p>(
        &self,
        path: &'p [Step],
    ) -> Option<(&'p str, impl Iterator<Item = &'s str>)> {
        let (trail, is_complete) = self.trail(path);
        let (_, map) = *trail.last().filter(|_| !is_complete)?;
        // The trail begins with the document.
        let missing = path.get((trail.len() - 1).checked_sub(self.prefix.len())?)?;
        Some((missing.key()?, map.entries().filter_map(|(key, _)| key.text())))
    }

    /// The region of a part of a scalar; offsets are in bytes of its text.
    pub(super) fn part(&self, scalar: Node<'s>, start: usize, end: usize) -> Region {
        let map: Map = self.passage.map_of(scalar);
        let whole = Passage { text: &[], base: 0, map: &map, file: self.passage.file };
        whole.region(start, end)
    }

    /// The region of a node.
    pub(super) fn region(&self, node: Node<'_>) -> Region {
        let Range { start, end } = node.range();
        self.passage.region(start, end)
    }

    /// The values of a map by their keys, all of them in one pass.
    pub(super) fn values(&self, path: &[Step]) -> HashMap<&'s str, Node<'s>> {
        let Some(map) = self.node(path) else { return HashMap::new() };
        let mut values = HashMap::new();
        let named = |(key, value): (Node<'s>, _)| Some((key.text()?, value));
        for (key, value) in merged_entries(map).filter_map(named) {
            values.entry(key).or_insert(value);
        }
        values.extend(map.entries().filter_map(named));
        values
    }

    /// The definition itself.
    pub(super) fn root(&self) -> Option<Node<'s>> {
        self.node(&[])
    }

    /// The existing keys and values on a path, and whether the path is complete.
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
    node.range().is_empty()
}

/// The entry with this exact key, or else with a key that Go folds to it, or
/// else of a merged map.
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

/// The entry of a merged map.
fn merged<'s>(node: Node<'s>, step: &Step) -> Option<(Option<Node<'s>>, Node<'s>)> {
    let wanted = step.key()?;
    let mut entries = merged_entries(node);
    entries.find(|(key, _)| key.text() == Some(wanted)).map(|(key, value)| (Some(key), value))
}

/// The entries of all merged maps. Merges inside merged maps are not followed.
fn merged_entries(node: Node<'_>) -> impl Iterator<Item = (Node<'_>, Node<'_>)> {
    let merges = node.entries().filter(|(key, _)| key.is_merge()).map(|(_, value)| value);
    let sources = merges.flat_map(|value| std::iter::once(value).chain(value.items()));
    sources.flat_map(Node::entries)
}
