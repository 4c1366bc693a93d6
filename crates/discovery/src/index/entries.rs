//! Adds entries of an archive to the tree.

use super::entry_error::{EntryError, MakeError};
use super::lookup::{LinkAllowance, MAX_COMPONENT_BYTES, Resolution, Trail};
use super::{Content, FileIndex, LookupError, NodeId, NodeKind, ROOT};
use cmp_go::path;

/// Longest name of an entry and longest value of a link in bytes. The limit is
/// Linux's (`PATH_MAX` without the final NUL).
pub(super) const MAX_PATH_BYTES: usize = 4095;

/// The directory of the entry before. Archives list the entries of a directory
/// one after the other.
#[derive(Debug)]
pub(super) struct RecentDirectory {
    /// The part of the entry's name before the last `/`, as in the archive.
    name: Vec<u8>,
    at: Directory,
}

/// A directory in which an entry is created.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory {
    pub(super) node: NodeId,
    /// The links on the path to it. All links of one lookup count together.
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
    /// Adds a directory and its missing parents. An existing directory is not
    /// an error.
    pub fn add_directory(&mut self, name: &[u8]) -> Result<(), EntryError> {
        if let Some((mut directory, last)) = self.in_recent_directory(name) {
            self.make_directory(&mut directory, last)?;
            self.remember(name, directory);
            return Ok(());
        }
        let directory = self.make_directories(&clean_name(name)?)?;
        self.remember(name, directory);
        Ok(())
    }

    /// Adds a file and its missing parents. If the name is a link, the file is
    /// written through it.
    pub fn add_file(&mut self, name: &[u8]) -> Result<(), EntryError> {
        if let Some((directory, last)) = self.in_recent_directory(name) {
            return self.make_file(directory, last);
        }
        let components = clean_name(name)?;
        let Some((last, above)) = components.split_last() else { return Ok(()) };
        let directory = self.make_directories(above)?;
        let (prefix, raw_last) = path::split_last(name);
        if raw_last == *last {
            self.remember(prefix, directory);
        }
        self.make_file(directory, last)
    }

    /// Creates directories like `mkdir -p`. Links to directories are followed.
    pub(super) fn make_directories(
        &mut self,
        components: &[&[u8]],
    ) -> Result<Directory, EntryError> {
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
        // `mkdir` does not create the target of a dangling link.
        at.node = self
            .follow_node(child, &mut at.trail)
            .map_err(|_nowhere| EntryError::Folder(MakeError::Exists))?;
        self.spend_lookups(at.trail.components() - before)?;
        if self.kind(at.node) == NodeKind::Directory {
            Ok(())
        } else {
            Err(EntryError::Folder(LookupError::NotADirectory.into()))
        }
    }

    /// Creates a file like `open(2)` with `O_CREAT`. The target of a link is
    /// created or overwritten.
    fn make_file(&mut self, directory: Directory, name: &[u8]) -> Result<(), EntryError> {
        if name.len() > MAX_COMPONENT_BYTES {
            return Err(EntryError::File(MakeError::NameTooLong));
        }
        let name = self.intern(name)?;
        let Some(child) = self.child_named(directory.node, name) else {
            return self.attach(directory.node, name, Content::File).map(|_node| ());
        };
        match self.kind(child) {
            NodeKind::File => Ok(()),
            NodeKind::Directory => Err(EntryError::File(MakeError::IsADirectory)),
            NodeKind::Link(_) => self.make_file_through(child, directory.trail),
        }
    }

    fn make_file_through(&mut self, link: NodeId, trail: Trail) -> Result<(), EntryError> {
        let mut trail = trail;
        let (directory, name) = match self.locate_node(link, &mut trail) {
            Ok(Resolution::Vacant { directory, name }) => (directory, name.to_vec()),
            Ok(Resolution::Taken(node)) if self.kind(node) == NodeKind::File => return Ok(()),
            Ok(Resolution::Taken(_)) => return Err(EntryError::File(MakeError::IsADirectory)),
            Err(error) => return Err(EntryError::File(error.into())),
        };
        self.spend_lookups(trail.components())?;
        let name = self.intern(&name)?;
        self.attach(directory, name, Content::File).map(|_node| ())
    }

    /// The entry's directory and last component, if the entry before had the
    /// same directory and the last component is clean.
    fn in_recent_directory<'a>(&self, name: &'a [u8]) -> Option<(Directory, &'a [u8])> {
        let (directory, last) = path::split_last(name);
        let plain = !matches!(last, b"" | b"." | b"..") && is_nameable(name);
        (plain && directory == self.recent.name).then_some((self.recent.at, last))
    }

    fn remember(&mut self, name: &[u8], at: Directory) {
        self.recent.name.clear();
        self.recent.name.extend_from_slice(name);
        self.recent.at = at;
    }
}

pub(super) fn clean_name(name: &[u8]) -> Result<Vec<&[u8]>, EntryError> {
    let mut components = Vec::new();
    if !path::extend(&mut components, name) {
        return Err(EntryError::Illegal);
    }
    if is_nameable(name) { Ok(components) } else { Err(EntryError::Unnameable) }
}

fn is_nameable(name: &[u8]) -> bool {
    name.len() <= MAX_PATH_BYTES && !name.contains(&0)
}
