//! The tree that unpacking an archive would create.

mod entries;
mod entry_error;
mod lookup;
mod names;
mod symlink;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

use hashbrown::HashTable;
use names::{NameId, Names};

pub use entry_error::{EntryError, MakeError};
pub use lookup::LookupError;
pub(super) use lookup::{LinkAllowance, MAX_COMPONENT_BYTES, Trail};

/// Default limit of entries. Directories that exist only in the names of
/// entries count too. An index at this limit and the next one takes 40 MB.
const MAX_ENTRIES: usize = 500_000;

/// Default limit for the bytes of distinct names: 33 bytes for each entry of
/// the largest index. Real repositories repeat most names.
const MAX_NAME_BYTES: usize = 16 << 20;

/// Default limit of component lookups, which is that of the largest index. They take
/// about one second.
const MAX_LOOKUPS: u64 = 20_000_000;

/// Lookups that each index may have, however small. They take two milliseconds, because
/// small indexes are built on threads that serve connections.
const FIRST_LOOKUPS: u64 = 100_000;

/// Lookups that each entry adds. Without it, a few hundred links through long chains
/// of links would take a second.
const LOOKUPS_OF_EACH: u64 = 40;

/// Limits of one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLimits {
    /// Number of files, directories and links. Directories that exist only in
    /// the names of entries count too.
    pub entries: usize,
    /// Bytes of all distinct names and link targets.
    pub name_bytes: usize,
    /// Number of components looked up to resolve names and links. An entry in
    /// the same directory as the one before needs no lookup. Small indexes have
    /// fewer: 100,000, and 40 for each entry.
    pub lookups: u64,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, name_bytes: MAX_NAME_BYTES, lookups: MAX_LOOKUPS }
    }
}

/// The tree of an archive's names.
///
/// Add the entries in the order of the archive, because the order matters: a
/// file written through a link is created where the link points.
pub struct FileIndex {
    nodes: Vec<Node>,
    /// All nodes except the root, by parent and name.
    by_name: HashTable<NodeId>,
    names: Names,
    /// A random odd factor for hashing, so that nobody can choose names whose
    /// hashes collide.
    multiplier: u64,
    limits: IndexLimits,
    lookups: u64,
    recent: entries::RecentDirectory,
}

/// Identifies a file, directory or link in a [`FileIndex`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(NonZeroU32);

/// The repository's root.
pub(super) const ROOT: NodeId = NodeId(NonZeroU32::MIN);

#[derive(Debug)]
struct Node {
    /// The root is its own parent.
    parent: NodeId,
    name: NameId,
    /// The next sibling. The last sibling refers to the first one.
    next: NodeId,
    content: Content,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    File,
    /// The last child. Its `next` is the first child, so one pointer keeps the
    /// archive's order.
    Directory(Option<NodeId>),
    /// The link's value, which is always relative.
    Link(NameId),
}

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind<'a> {
    File,
    Directory,
    /// The value that `readlink` returns.
    Link(&'a [u8]),
}

impl fmt::Debug for FileIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileIndex").field("entries", &self.len()).finish_non_exhaustive()
    }
}

impl Default for FileIndex {
    fn default() -> Self {
        Self::new(IndexLimits::default())
    }
}

impl FileIndex {
    /// An index of an empty repository.
    #[must_use]
    pub fn new(limits: IndexLimits) -> Self {
        let mut names = Names::default();
        let name = names.insert(b"").unwrap_or(NameId::FIRST);
        let content = Content::Directory(None);
        Self {
            nodes: vec![Node { parent: ROOT, name, next: ROOT, content }],
            by_name: HashTable::new(),
            names,
            multiplier: RandomState::new().hash_one(()) | 1,
            limits,
            lookups: 0,
            recent: entries::RecentDirectory::default(),
        }
    }

    /// Number of files, directories and links, without the root.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The repository is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocated heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        nodes + self.by_name.allocation_size() + self.names.heap_bytes()
    }

    /// Number of files and links below a directory, at any depth. Links are not
    /// followed.
    ///
    /// `path` is relative to the repository. The number is 0 if it is not a
    /// directory.
    #[must_use]
    pub fn files_below(&self, path: &[u8]) -> usize {
        let Ok(top) = self.stat(path) else { return 0 };
        let (mut files, mut directories) = (0, vec![top]);
        while let Some(directory) = directories.pop() {
            for child in self.children(directory) {
                match self.kind(child) {
                    NodeKind::Directory => directories.push(child),
                    NodeKind::File | NodeKind::Link(_) => files += 1,
                }
            }
        }
        files
    }

    pub(super) fn kind(&self, node: NodeId) -> NodeKind<'_> {
        match self.node(node).content {
            Content::File => NodeKind::File,
            Content::Directory(_) => NodeKind::Directory,
            Content::Link(target) => NodeKind::Link(self.names.get(target)),
        }
    }

    pub(super) fn name(&self, node: NodeId) -> &[u8] {
        self.names.get(self.node(node).name)
    }

    /// The entry with this name in a directory. `None` for a file.
    pub(super) fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.child_named(directory, self.names.find(name)?)
    }

    /// The entries of a directory in the archive's order. Empty for a file.
    pub(super) fn children(&self, directory: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.first_child(directory);
        std::iter::successors(first, move |&child| self.sibling_after(directory, child))
    }

    /// The first entry of a directory.
    pub(super) fn first_child(&self, directory: NodeId) -> Option<NodeId> {
        self.last_child(directory).map(|last| self.node(last).next)
    }

    /// The entry after `child` in its directory.
    pub(super) fn sibling_after(&self, directory: NodeId, child: NodeId) -> Option<NodeId> {
        (self.last_child(directory) != Some(child)).then(|| self.node(child).next)
    }

    fn parent(&self, node: NodeId) -> NodeId {
        self.node(node).parent
    }

    fn last_child(&self, directory: NodeId) -> Option<NodeId> {
        match self.node(directory).content {
            Content::Directory(last) => last,
            Content::File | Content::Link(_) => None,
        }
    }

    fn child_named(&self, directory: NodeId, name: NameId) -> Option<NodeId> {
        let is_it = |id: &NodeId| {
            let node = &self.nodes[id.index()];
            node.parent == directory && node.name == name
        };
        self.by_name.find(hash(self.multiplier, directory, name), is_it).copied()
    }

    /// Adds a new entry. The name must not exist in `parent` yet.
    fn attach(
        &mut self,
        parent: NodeId,
        name: NameId,
        content: Content,
    ) -> Result<NodeId, EntryError> {
        if self.len() >= self.limits.entries {
            return Err(EntryError::TooManyEntries { limit: self.limits.entries });
        }
        let too_many = EntryError::TooManyEntries { limit: self.limits.entries };
        let id = u32::try_from(self.nodes.len()).map_err(|_too_large| too_many)?;
        let node = NodeId::at(id).unwrap_or(ROOT);
        let next = self.first_child(parent).unwrap_or(node);
        if let Some(last) = self.last_child(parent) {
            self.node_mut(last).next = node;
        }
        self.nodes.push(Node { parent, name, next, content });
        self.node_mut(parent).content = Content::Directory(Some(node));
        let (nodes, multiplier) = (&self.nodes, self.multiplier);
        self.by_name.insert_unique(hash(multiplier, parent, name), node, |id| {
            let node = &nodes[id.index()];
            hash(multiplier, node.parent, node.name)
        });
        Ok(node)
    }

    fn intern(&mut self, name: &[u8]) -> Result<NameId, EntryError> {
        if let Some(id) = self.names.find(name) {
            return Ok(id);
        }
        let limit = self.limits.name_bytes;
        if self.names.total_bytes() + name.len() > limit {
            return Err(EntryError::TooManyNameBytes { limit });
        }
        self.names.insert(name).ok_or(EntryError::TooManyNameBytes { limit })
    }

    fn spend_lookups(&mut self, components: u64) -> Result<(), EntryError> {
        let earned = FIRST_LOOKUPS + LOOKUPS_OF_EACH * self.nodes.len() as u64;
        let limit = self.limits.lookups.min(earned);
        self.lookups = self.lookups.saturating_add(components);
        if self.lookups <= limit { Ok(()) } else { Err(EntryError::TooManyLookups { limit }) }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }
}

impl NodeId {
    fn at(index: u32) -> Option<Self> {
        NonZeroU32::new(index.checked_add(1)?).map(Self)
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

fn hash(multiplier: u64, parent: NodeId, name: NameId) -> u64 {
    let pair = (u64::from(parent.0.get()) << 32) | u64::from(name.number());
    let product = pair.wrapping_mul(multiplier);
    // The table uses the low half of the hash, which in the product does not
    // depend on the parent.
    product ^ (product >> 32)
}
