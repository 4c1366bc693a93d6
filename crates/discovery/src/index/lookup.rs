//! Resolves paths in the tree as Linux does.

use super::{FileIndex, NodeId, NodeKind, ROOT};
use cmp_go::path;

/// Longest name of one file or directory in bytes. The limit is Linux's
/// (`NAME_MAX`).
pub(in super::super) const MAX_COMPONENT_BYTES: usize = 255;

/// The reason why a path cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A component does not exist (ENOENT).
    #[error("no such file or directory")]
    NotFound,
    /// A component that is not the last is a file (ENOTDIR).
    #[error("not a directory")]
    NotADirectory,
    /// A component is too long (ENAMETOOLONG).
    #[error("file name too long")]
    NameTooLong,
    /// The path leads through too many links (ELOOP).
    #[error("too many levels of symbolic links")]
    TooManyLinks,
}

/// The number of links that a lookup may follow. It depends on who resolves the
/// path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum LinkAllowance {
    /// Linux follows 40 in one lookup (`MAXSYMLINKS`).
    Kernel,
    /// Go's `filepath.EvalSymlinks` and `securejoin.SecureJoin` follow 255.
    Library,
}

/// Counts links and components of one lookup.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Trail {
    allowance: LinkAllowance,
    links: u32,
    components: u64,
}

/// The result of resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution<'a> {
    /// An existing entry.
    Taken(NodeId),
    /// A name that does not exist in an existing directory.
    Vacant { directory: NodeId, name: &'a [u8] },
}

impl Trail {
    /// Starts a lookup.
    pub(in super::super) fn new(allowance: LinkAllowance) -> Self {
        Self { allowance, links: 0, components: 0 }
    }

    /// Number of links followed so far.
    pub(in super::super) fn links(self) -> u32 {
        self.links
    }

    /// Number of components looked up so far, with those of links.
    pub(in super::super) fn components(self) -> u64 {
        self.components
    }

    /// Counts one link.
    pub(in super::super) fn follow_link(&mut self) -> Result<(), LookupError> {
        let most = match self.allowance {
            LinkAllowance::Kernel => 40,
            LinkAllowance::Library => 255,
        };
        self.links += 1;
        if self.links > most { Err(LookupError::TooManyLinks) } else { Ok(()) }
    }

    /// Counts one component.
    pub(super) fn enter(&mut self) {
        self.components += 1;
    }
}

impl FileIndex {
    /// Resolves a path below the root like `stat(2)`: links are followed.
    pub(in super::super) fn stat(&self, path: &[u8]) -> Result<NodeId, LookupError> {
        self.follow(ROOT, path, &mut Trail::new(LinkAllowance::Kernel))
    }

    /// Resolves a clean path like `lstat(2)`: a link at its end is not
    /// followed.
    pub(in super::super) fn lstat(&self, path: &[u8]) -> Result<NodeId, LookupError> {
        let (parent, name) = path::split_last(path);
        let directory = self.stat(parent)?;
        if name.is_empty() { Ok(directory) } else { self.step(directory, name) }
    }

    /// Resolves `path` from `start`. A link at its end is followed.
    pub(in super::super) fn follow(
        &self,
        start: NodeId,
        path: &[u8],
        trail: &mut Trail,
    ) -> Result<NodeId, LookupError> {
        match self.locate(start, path, trail)? {
            Resolution::Taken(node) => Ok(node),
            Resolution::Vacant { .. } => Err(LookupError::NotFound),
        }
    }

    /// Follows `node` if it is a link.
    pub(in super::super) fn follow_node(
        &self,
        node: NodeId,
        trail: &mut Trail,
    ) -> Result<NodeId, LookupError> {
        match self.locate_node(node, trail)? {
            Resolution::Taken(node) => Ok(node),
            Resolution::Vacant { .. } => Err(LookupError::NotFound),
        }
    }

    /// Follows `node` if it is a link. Its target may be a missing name.
    pub(super) fn locate_node(
        &self,
        node: NodeId,
        trail: &mut Trail,
    ) -> Result<Resolution<'_>, LookupError> {
        let NodeKind::Link(target) = self.kind(node) else { return Ok(Resolution::Taken(node)) };
        trail.follow_link()?;
        self.locate(self.parent(node), target, trail)
    }

    /// Resolves `path` from `start`. The last name may be missing.
    fn locate<'a>(
        &'a self,
        start: NodeId,
        path: &'a [u8],
        trail: &mut Trail,
    ) -> Result<Resolution<'a>, LookupError> {
        // The rest of the path waits here while a link's target is resolved.
        // The limit on links bounds the number of waiting paths.
        let mut pending = vec![path];
        let mut at = start;
        while let Some(name) = next_component(&mut pending) {
            trail.enter();
            let node = match self.step(at, name) {
                Err(LookupError::NotFound) if pending.is_empty() && name != b".." => {
                    return Ok(Resolution::Vacant { directory: at, name });
                }
                step => step?,
            };
            match self.kind(node) {
                NodeKind::Link(target) => {
                    trail.follow_link()?;
                    pending.push(target);
                }
                NodeKind::File | NodeKind::Directory => at = node,
            }
        }
        Ok(Resolution::Taken(at))
    }

    /// Resolves one component in the directory `at`.
    fn step(&self, at: NodeId, name: &[u8]) -> Result<NodeId, LookupError> {
        if self.kind(at) != NodeKind::Directory {
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

/// Takes the next component from the innermost path. Completed paths are
/// removed, so an empty stack means that this component was the last.
fn next_component<'a>(pending: &mut Vec<&'a [u8]>) -> Option<&'a [u8]> {
    loop {
        let path = pending.pop()?;
        let (name, rest) = path::split_first(path);
        if !rest.is_empty() {
            pending.push(rest);
        }
        if !name.is_empty() {
            return Some(name);
        }
    }
}
