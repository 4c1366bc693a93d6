//! Finding a path in the tree, through its links, as a kernel would.

use super::super::lexical;
use super::{FileIndex, Kind, NodeId, ROOT, entries::MAX_COMPONENT_BYTES};

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A component is missing (ENOENT).
    #[error("no such file or directory")]
    NotFound,
    /// A component that is not the last is a file (ENOTDIR).
    #[error("not a directory")]
    NotADirectory,
    /// A component is longer than any name (ENAMETOOLONG).
    #[error("file name too long")]
    NameTooLong,
    /// More links than are followed (ELOOP).
    #[error("too many levels of symbolic links")]
    TooManyLinks,
}

/// Who follows, and so how many links: the two differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum LinkAllowance {
    /// Linux, in one lookup: `MAXSYMLINKS`.
    Kernel,
    /// Go's `filepath.EvalSymlinks` and `securejoin.SecureJoin`.
    Library,
}

/// How far a lookup has gone.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Trail {
    allowance: LinkAllowance,
    links: u32,
    components: u64,
}

/// What stands where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// An entry.
    Taken(NodeId),
    /// Nothing, but the directory it would be in exists.
    Vacant { directory: NodeId, name: &'a [u8] },
}

impl Trail {
    /// The beginning of a lookup.
    pub(in super::super) fn new(allowance: LinkAllowance) -> Self {
        Self { allowance, links: 0, components: 0 }
    }

    /// Links followed so far.
    pub(in super::super) fn links(self) -> u32 {
        self.links
    }

    /// Components looked up so far, those of links included.
    pub(in super::super) fn components(self) -> u64 {
        self.components
    }

    /// Counts one more link.
    pub(in super::super) fn follow_link(&mut self) -> Result<(), LookupError> {
        let most = match self.allowance {
            LinkAllowance::Kernel => 40,
            LinkAllowance::Library => 255,
        };
        self.links += 1;
        if self.links > most { Err(LookupError::TooManyLinks) } else { Ok(()) }
    }

    /// Counts one more component.
    pub(super) fn enter(&mut self) {
        self.components += 1;
    }
}

impl FileIndex {
    /// What `stat(2)` finds at a path below the root: links are followed.
    pub(in super::super) fn stat(&self, path: &[u8]) -> Result<NodeId, LookupError> {
        self.follow(ROOT, path, &mut Trail::new(LinkAllowance::Kernel))
    }

    /// What `lstat(2)` finds at a clean path: a link at its end is not followed.
    pub(in super::super) fn lstat(&self, path: &[u8]) -> Result<NodeId, LookupError> {
        let (parent, name) = lexical::split_last(path);
        let directory = self.stat(parent)?;
        if name.is_empty() { Ok(directory) } else { self.step(directory, name) }
    }

    /// Follows `path` from `start`, and a link at its end as well.
    pub(in super::super) fn follow(
        &self,
        start: NodeId,
        path: &[u8],
        trail: &mut Trail,
    ) -> Result<NodeId, LookupError> {
        match self.locate(start, path, trail)? {
            Place::Taken(node) => Ok(node),
            Place::Vacant { .. } => Err(LookupError::NotFound),
        }
    }

    /// Where `node` leads: itself unless it is a link.
    pub(in super::super) fn follow_node(
        &self,
        node: NodeId,
        trail: &mut Trail,
    ) -> Result<NodeId, LookupError> {
        match self.locate_node(node, trail)? {
            Place::Taken(node) => Ok(node),
            Place::Vacant { .. } => Err(LookupError::NotFound),
        }
    }

    /// The place where `node` leads.
    pub(super) fn locate_node(
        &self,
        node: NodeId,
        trail: &mut Trail,
    ) -> Result<Place<'_>, LookupError> {
        let Kind::Link(target) = self.kind(node) else { return Ok(Place::Taken(node)) };
        trail.follow_link()?;
        self.locate(self.parent(node), target, trail)
    }

    /// The place `path` leads to from `start`, links at its end followed.
    fn locate<'a>(
        &'a self,
        start: NodeId,
        path: &'a [u8],
        trail: &mut Trail,
    ) -> Result<Place<'a>, LookupError> {
        // Each link puts the rest of its path aside; their number bounds the stack.
        let mut pending = vec![path];
        let mut at = start;
        while let Some(name) = next_component(&mut pending) {
            trail.enter();
            let node = match self.step(at, name) {
                Err(LookupError::NotFound) if pending.is_empty() && name != b".." => {
                    return Ok(Place::Vacant { directory: at, name });
                }
                step => step?,
            };
            match self.kind(node) {
                Kind::Link(target) => {
                    trail.follow_link()?;
                    pending.push(target);
                }
                Kind::File | Kind::Directory => at = node,
            }
        }
        Ok(Place::Taken(at))
    }

    /// One component of a path, from a directory.
    fn step(&self, at: NodeId, name: &[u8]) -> Result<NodeId, LookupError> {
        if self.kind(at) != Kind::Directory {
            return Err(LookupError::NotADirectory);
        }
        match name {
            b"." => Ok(at),
            b".." if at == ROOT => Err(LookupError::NotFound),
            b".." => Ok(self.parent(at)),
            name if name.len() > MAX_COMPONENT_BYTES => Err(LookupError::NameTooLong),
            name => self.child(at, name).ok_or(LookupError::NotFound),
        }
    }
}

/// Takes the next component off the innermost path. Finished paths are dropped,
/// so that an empty stack means this component was the last.
fn next_component<'a>(pending: &mut Vec<&'a [u8]>) -> Option<&'a [u8]> {
    loop {
        let path = pending.pop()?;
        let (name, rest) = lexical::split_first(path);
        if !rest.is_empty() {
            pending.push(rest);
        }
        if !name.is_empty() {
            return Some(name);
        }
    }
}
