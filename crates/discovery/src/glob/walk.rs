//! Searches all paths below a directory for a glob.

use super::super::index::{FileIndex, NodeId, NodeKind};
use super::super::steps::{Exhausted, Steps};
use super::program::{ActiveStates, Run};
use super::{CompiledGlob, Decision};
use cmp_go::path;

/// The part of the tree that is searched.
pub(super) struct Scope {
    /// Path of the directory that is searched. If it is a file, only the file
    /// itself is matched.
    pub(super) root: Vec<u8>,
    pub(super) node: NodeId,
    /// Length in bytes of the part of `root` that is not matched.
    pub(super) above: usize,
}

/// A depth-first search that ends at the first match. It skips directories
/// below which nothing can match.
pub(super) struct Walk<'a> {
    index: &'a FileIndex,
    scope: Scope,
    mistaken_way: Option<&'a [u8]>,
    run: Run<'a>,
    /// The active states after the current text. The memory is reused for each
    /// name.
    active: ActiveStates,
    open: Vec<Listing>,
}

struct Listing {
    directory: NodeId,
    /// The active states after the directory's path and a `/`.
    active: ActiveStates,
    /// The current entry.
    entry: Option<NodeId>,
    next: Option<NodeId>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        index: &'a FileIndex,
        search: &'a CompiledGlob,
        scope: Scope,
        steps: Steps<'a>,
    ) -> Self {
        let mistaken_way = search.mistaken_way.as_deref().map(str::as_bytes);
        let run = Run::new(&search.program, steps);
        let (active, open) = (run.start(), Vec::new());
        Self { index, scope, mistaken_way, run, active, open }
    }

    /// The first path that matches.
    pub(super) fn first_match(mut self) -> Result<Decision, Exhausted> {
        let way = self.scope.root.get(self.scope.above..).unwrap_or_default();
        for component in path::components(way) {
            self.run.advance(&mut self.active, b"/")?;
            self.run.advance(&mut self.active, component)?;
        }
        if self.index.kind(self.scope.node) != NodeKind::Directory {
            let found = self.active.has_matched();
            return Ok(if found { Decision::Match(self.path()) } else { Decision::NoMatch });
        }
        self.list(self.scope.node)?;
        while let Some(listing) = self.open.last_mut() {
            listing.entry = listing.next;
            let Some(entry) = listing.entry else {
                self.open.pop();
                continue;
            };
            listing.next = self.index.sibling_after(listing.directory, entry);
            self.active.set_to(&listing.active);
            self.run.advance(&mut self.active, self.index.name(entry))?;
            if self.active.has_matched() {
                return Ok(Decision::Match(self.path()));
            }
            if self.index.kind(entry) == NodeKind::Directory && !self.is_passed_by() {
                self.list(entry)?;
            }
        }
        Ok(Decision::NoMatch)
    }

    fn list(&mut self, directory: NodeId) -> Result<(), Exhausted> {
        self.run.advance(&mut self.active, b"/")?;
        if !self.active.is_dead() {
            let (active, next) = (self.active.clone(), self.index.first_child(directory));
            self.open.push(Listing { directory, active, entry: None, next });
        }
        Ok(())
    }

    /// go-zglob would skip the current directory.
    fn is_passed_by(&self) -> bool {
        let Some(way) = self.mistaken_way else { return false };
        let path = self.path();
        let path = path.get(self.scope.above..).unwrap_or_default();
        let directory = [b"/", path.strip_prefix(b"/").unwrap_or(path), b"/"].concat();
        directory.len() <= way.len() && !way.starts_with(&directory)
    }

    /// The path of the current entry.
    fn path(&self) -> Vec<u8> {
        let mut path = self.scope.root.clone();
        for entry in self.open.iter().filter_map(|listing| listing.entry) {
            path::push(&mut path, self.index.name(entry));
        }
        path
    }
}
