//! What one entry of the archive does to the tree.

use super::super::lexical;
use super::entry_error::{EntryError, MakeError};
use super::lookup::{LinkAllowance, Place, Trail};
use super::{Content, FileIndex, Kind, LookupError, NodeId, ROOT};

/// Longest name of one file or directory, as on Linux (`NAME_MAX`).
pub(super) const MAX_COMPONENT_BYTES: usize = 255;

/// Longest name of an entry and longest value of a link, as on Linux
/// (`PATH_MAX`, less the byte that ends it).
pub(super) const MAX_PATH_BYTES: usize = 4095;

/// The directory that held the entry before: archives list a directory's
/// entries one after the other.
#[derive(Debug)]
pub(super) struct RecentDirectory {
    /// The directory's part of the entry's name, as the archive had it.
    name: Vec<u8>,
    at: Directory,
}

/// A directory an entry goes into.
#[derive(Debug, Clone, Copy)]
struct Directory {
    node: NodeId,
    /// Followed on the way to it; one lookup's links count together.
    trail: Trail,
}

impl Default for RecentDirectory {
    fn default() -> Self {
        Self { name: Vec::new(), at: Directory::root() }
    }
}

impl Directory {
    fn root() -> Self {
        Self { node: ROOT, trail: Trail::new(LinkAllowance::Kernel) }
    }
}

impl FileIndex {
    /// A directory entry: made with those above it, fine where one is already.
    pub fn add_directory(&mut self, name: &[u8]) -> Result<(), EntryError> {
        if is_root(name) {
            return Ok(());
        }
        if let Some((mut directory, last)) = self.in_recent_directory(name) {
            self.make_directory(&mut directory, last)?;
            self.remember(name, directory);
            return Ok(());
        }
        let directory = self.make_directories(&clean_name(name)?)?;
        self.remember(name, directory);
        Ok(())
    }

    /// A regular file: directories above it are made, and a link of that name is
    /// written through.
    pub fn add_file(&mut self, name: &[u8]) -> Result<(), EntryError> {
        if is_root(name) {
            return Ok(());
        }
        if let Some((directory, last)) = self.in_recent_directory(name) {
            return self.make_file(directory, last);
        }
        let components = clean_name(name)?;
        let Some((last, above)) = components.split_last() else {
            return Err(EntryError::Illegal);
        };
        let directory = self.make_directories(above)?;
        let (prefix, raw_last) = lexical::split_last(name);
        if raw_last == *last {
            self.remember(prefix, directory);
        }
        self.make_file(directory, last)
    }

    /// An entry that makes nothing: its name has to be below the root all the same.
    pub fn check(&self, name: &[u8]) -> Result<(), EntryError> {
        let mut components = Vec::new();
        let is_below = lexical::extend(&mut components, name) && !components.is_empty();
        if is_root(name) || is_below { Ok(()) } else { Err(EntryError::Illegal) }
    }

    /// `mkdir -p`: links to directories on the way are entered.
    fn make_directories(&mut self, components: &[&[u8]]) -> Result<Directory, EntryError> {
        self.spend_lookups(components.len() as u64)?;
        let mut directory = Directory::root();
        for name in components {
            self.make_directory(&mut directory, name)?;
        }
        Ok(directory)
    }

    fn make_directory(&mut self, at: &mut Directory, name: &[u8]) -> Result<(), EntryError> {
        if name.len() > MAX_COMPONENT_BYTES {
            return Err(EntryError::Folder(MakeError::NameTooLong));
        }
        let name = self.intern(name)?;
        let Some(child) = self.child_named(at.node, name) else {
            at.node = self.attach(at.node, name, Content::Directory(None))?;
            return Ok(());
        };
        let before = at.trail.components();
        // A link that leads nowhere is in the way: mkdir does not make its target.
        at.node = self
            .follow_node(child, &mut at.trail)
            .map_err(|_nowhere| EntryError::Folder(MakeError::Exists))?;
        self.spend_lookups(at.trail.components() - before)?;
        if self.kind(at.node) == Kind::Directory {
            Ok(())
        } else {
            Err(EntryError::Folder(LookupError::NotADirectory.into()))
        }
    }

    /// `open(2)` with `O_CREAT`: what a link leads to is made or overwritten.
    fn make_file(&mut self, directory: Directory, name: &[u8]) -> Result<(), EntryError> {
        if name.len() > MAX_COMPONENT_BYTES {
            return Err(EntryError::File(MakeError::NameTooLong));
        }
        let name = self.intern(name)?;
        let Some(child) = self.child_named(directory.node, name) else {
            return self.attach(directory.node, name, Content::File).map(|_node| ());
        };
        match self.kind(child) {
            Kind::File => Ok(()),
            Kind::Directory => Err(EntryError::File(MakeError::IsADirectory)),
            Kind::Link(_) => self.make_file_through(child, directory.trail),
        }
    }

    fn make_file_through(&mut self, link: NodeId, trail: Trail) -> Result<(), EntryError> {
        let mut trail = trail;
        let (directory, name) = match self.locate_node(link, &mut trail) {
            Ok(Place::Vacant { directory, name }) => (directory, name.to_vec()),
            Ok(Place::Taken(node)) if self.kind(node) == Kind::File => return Ok(()),
            Ok(Place::Taken(_)) => return Err(EntryError::File(MakeError::IsADirectory)),
            Err(error) => return Err(EntryError::File(error.into())),
        };
        self.spend_lookups(trail.components())?;
        let name = self.intern(&name)?;
        self.attach(directory, name, Content::File).map(|_node| ())
    }

    /// The entry's directory and last component, when its directory is that of
    /// the entry before and its last component needs no cleaning.
    fn in_recent_directory<'a>(&self, name: &'a [u8]) -> Option<(Directory, &'a [u8])> {
        let (directory, last) = lexical::split_last(name);
        let plain = !matches!(last, b"" | b"." | b"..") && is_nameable(name);
        (plain && directory == self.recent.name).then_some((self.recent.at, last))
    }

    fn remember(&mut self, name: &[u8], at: Directory) {
        self.recent.name.clear();
        self.recent.name.extend_from_slice(name);
        self.recent.at = at;
    }
}

/// The client sends the root itself first, and its content is never unpacked.
pub(super) fn is_root(name: &[u8]) -> bool {
    matches!(name, b"." | b"./")
}

pub(super) fn clean_name(name: &[u8]) -> Result<Vec<&[u8]>, EntryError> {
    let mut components = Vec::new();
    if !lexical::extend(&mut components, name) || components.is_empty() {
        return Err(EntryError::Illegal);
    }
    if is_nameable(name) { Ok(components) } else { Err(EntryError::Unnameable) }
}

fn is_nameable(name: &[u8]) -> bool {
    name.len() <= MAX_PATH_BYTES && !name.contains(&0)
}
