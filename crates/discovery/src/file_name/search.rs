//! Searches the tree for a `fileName`, one directory for each component.

use std::collections::HashMap;

use super::super::index::{FileIndex, LinkAllowance, NodeId, NodeKind, ROOT, Trail};
use super::super::steps::{Exhausted, Steps};
use super::Component;
use super::Decision;
use cmp_go::path;

/// Steps that storing a directory costs. This limits the map to half a million
/// directories reached through links.
const STEPS_TO_REMEMBER: u64 = 1024;

/// A depth-first search that ends at the first match.
pub(super) struct Search<'a> {
    index: &'a FileIndex,
    components: &'a [Component],
    steps: Steps<'a>,
    /// The directory that each component has led to. The next component is
    /// matched against the entries of the last one.
    open: Vec<Listing>,
    /// The fewest links through which a directory was reached for a component.
    /// Without this map, links between directories would multiply the number of
    /// paths.
    reached: HashMap<(usize, NodeId), u32>,
}

struct Listing {
    directory: NodeId,
    /// Links followed so far. A path with more links than Linux follows does
    /// not exist.
    trail: Trail,
    /// The current entry.
    entry: Option<NodeId>,
    next: Option<NodeId>,
    /// A literal component has one candidate, which is found by its name.
    is_single: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(index: &'a FileIndex, components: &'a [Component], steps: Steps<'a>) -> Self {
        Self { index, components, steps, open: Vec::new(), reached: HashMap::new() }
    }

    /// The first path below `top` that matches.
    pub(super) fn run(mut self, top: &[u8]) -> Result<Decision, Exhausted> {
        let mut trail = Trail::new(LinkAllowance::Kernel);
        if let Ok(directory) = self.index.follow(ROOT, top, &mut trail) {
            self.list(directory, trail)?;
        }
        while let Some(depth) = self.open.len().checked_sub(1) {
            let Some(entry) = self.next_entry() else {
                self.open.pop();
                continue;
            };
            let Some(component) = self.components.get(depth) else {
                continue;
            };
            self.steps.take(1)?;
            if !component.matches(self.index.name(entry), &mut self.steps)? {
                continue;
            }
            if depth + 1 == self.components.len() {
                return Ok(Decision::Match(self.path(top)));
            }
            self.enter(entry)?;
        }
        Ok(Decision::NoMatch)
    }

    fn next_entry(&mut self) -> Option<NodeId> {
        let listing = self.open.last_mut()?;
        listing.entry = listing.next;
        let entry = listing.entry?;
        listing.next = if listing.is_single {
            None
        } else {
            self.index.sibling_after(listing.directory, entry)
        };
        Some(entry)
    }

    /// Continues in an entry if it is a directory or a link to one.
    fn enter(&mut self, entry: NodeId) -> Result<(), Exhausted> {
        let Some(mut trail) = self.open.last().map(|listing| listing.trail) else {
            return Ok(());
        };
        let before = trail.components();
        let followed = self.index.follow_node(entry, &mut trail);
        self.steps.take(trail.components() - before)?;
        match followed {
            Ok(directory) => self.list(directory, trail),
            Err(_nowhere) => Ok(()),
        }
    }

    fn list(&mut self, directory: NodeId, trail: Trail) -> Result<(), Exhausted> {
        if self.index.kind(directory) != NodeKind::Directory || self.is_known(directory, trail)? {
            return Ok(());
        }
        let (next, is_single) = match self.components.get(self.open.len()) {
            Some(Component::Literal(name)) => (self.index.child(directory, name.as_bytes()), true),
            Some(Component::Pattern(_)) => (self.index.first_child(directory), false),
            None => (None, true),
        };
        self.open.push(Listing { directory, trail, entry: None, next, is_single });
        Ok(())
    }

    /// This directory was already searched for this component with at most as
    /// many links. Without links, each directory is reached only once.
    fn is_known(&mut self, directory: NodeId, trail: Trail) -> Result<bool, Exhausted> {
        if trail.links() == 0 {
            return Ok(false);
        }
        let (here, links) = ((self.open.len(), directory), trail.links());
        if self.reached.get(&here).is_some_and(|&fewest| fewest <= links) {
            return Ok(true);
        }
        self.steps.take(STEPS_TO_REMEMBER)?;
        self.reached.insert(here, links);
        Ok(false)
    }

    fn path(&self, top: &[u8]) -> Vec<u8> {
        let mut path = top.to_vec();
        for entry in self.open.iter().filter_map(|listing| listing.entry) {
            path::push(&mut path, self.index.name(entry));
        }
        path
    }
}
