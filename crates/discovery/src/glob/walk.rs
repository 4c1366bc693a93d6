//! Trying a glob on everything below a directory.

use super::super::index::{FileIndex, Kind, NodeId};
use super::super::lexical;
use super::super::steps::{Exhausted, Steps};
use super::program::{Front, Run};
use super::{Search, Verdict};

/// Where a glob is tried.
pub(super) struct Scope {
    /// The directory searched; where it is none it is tried itself.
    pub(super) root: Vec<u8>,
    pub(super) node: NodeId,
    /// How much of `root` lies above what the expression is about.
    pub(super) above: usize,
}

/// A depth-first walk that ends at the first match and leaves out directories
/// below which nothing can match.
pub(super) struct Walk<'a> {
    index: &'a FileIndex,
    scope: Scope,
    mistaken_way: Option<&'a [u8]>,
    run: Run<'a>,
    /// The text so far, here to be used again from one name to the next.
    front: Front,
    open: Vec<Listing>,
}

struct Listing {
    directory: NodeId,
    /// After the directory's path and a `/`.
    front: Front,
    /// The entry being tried.
    entry: Option<NodeId>,
    next: Option<NodeId>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        index: &'a FileIndex,
        search: &'a Search,
        scope: Scope,
        steps: Steps,
    ) -> Self {
        let mistaken_way = search.mistaken_way.as_deref().map(str::as_bytes);
        let run = Run::new(&search.program, steps);
        let (front, open) = (run.start(), Vec::new());
        Self { index, scope, mistaken_way, run, front, open }
    }

    /// The first path that matches.
    pub(super) fn first_match(mut self) -> Result<Verdict, Exhausted> {
        let way = self.scope.root.get(self.scope.above..).unwrap_or_default();
        for component in lexical::components(way) {
            self.run.advance(&mut self.front, b"/")?;
            self.run.advance(&mut self.front, component)?;
        }
        if self.index.kind(self.scope.node) != Kind::Directory {
            let found = self.front.has_matched();
            return Ok(if found { Verdict::Match(self.path()) } else { Verdict::NoMatch });
        }
        self.list(self.scope.node)?;
        while let Some(listing) = self.open.last_mut() {
            listing.entry = listing.next;
            let Some(entry) = listing.entry else {
                self.open.pop();
                continue;
            };
            listing.next = self.index.sibling_after(listing.directory, entry);
            self.front.set_to(&listing.front);
            self.run.advance(&mut self.front, self.index.name(entry))?;
            if self.front.has_matched() {
                return Ok(Verdict::Match(self.path()));
            }
            if self.index.kind(entry) == Kind::Directory && !self.is_passed_by() {
                self.list(entry)?;
            }
        }
        Ok(Verdict::NoMatch)
    }

    fn list(&mut self, directory: NodeId) -> Result<(), Exhausted> {
        self.run.advance(&mut self.front, b"/")?;
        if !self.front.is_dead() {
            let (front, next) = (self.front.clone(), self.index.first_child(directory));
            self.open.push(Listing { directory, front, entry: None, next });
        }
        Ok(())
    }

    /// Whether go-zglob would not look into the directory being tried.
    fn is_passed_by(&self) -> bool {
        let Some(way) = self.mistaken_way else { return false };
        let path = self.path();
        let path = path.get(self.scope.above..).unwrap_or_default();
        let directory = [b"/", path.strip_prefix(b"/").unwrap_or(path), b"/"].concat();
        directory.len() <= way.len() && !way.starts_with(&directory)
    }

    /// The path of the entry being tried.
    fn path(&self) -> Vec<u8> {
        let mut path = self.scope.root.clone();
        for entry in self.open.iter().filter_map(|listing| listing.entry) {
            lexical::push(&mut path, self.index.name(entry));
        }
        path
    }
}
