//! Adds symbolic links of an archive to the tree.

use super::entries::{MAX_PATH_BYTES, clean_name, is_root};
use super::entry_error::{EntryError, MakeError};
use super::lookup::{LinkAllowance, MAX_COMPONENT_BYTES, Trail};
use super::{Content, FileIndex, LookupError, NodeKind, ROOT};
use cmp_go::path;

impl FileIndex {
    /// Adds a symbolic link. `target` is the value in the archive.
    ///
    /// The link's directory must exist and its name must be free. As in Argo
    /// CD, the target must be below the root. It is resolved as far as it
    /// exists and stored relative to the directory in the link's name.
    ///
    /// If that directory is itself a link, the new link is created in another
    /// place, and the value that Argo CD stores can lead out of the repository.
    /// Such a link is refused.
    pub fn add_symlink(&mut self, name: &[u8], target: &[u8]) -> Result<(), EntryError> {
        if is_root(name) {
            return Ok(());
        }
        let components = clean_name(name)?;
        let Some((last, above)) = components.split_last() else {
            return Err(EntryError::Illegal);
        };
        let value = self.link_value(above, target)?;
        let mut trail = Trail::new(LinkAllowance::Kernel);
        let directory = self
            .follow(ROOT, &above.join(&b'/'), &mut trail)
            .map_err(|error| EntryError::Link(error.into()))?;
        if self.kind(directory) != NodeKind::Directory {
            return Err(EntryError::Link(LookupError::NotADirectory.into()));
        }
        self.spend_lookups(trail.components())?;
        if last.len() > MAX_COMPONENT_BYTES {
            return Err(EntryError::Link(MakeError::NameTooLong));
        }
        let name = self.intern(last)?;
        if self.child_named(directory, name).is_some() {
            return Err(EntryError::Link(MakeError::Exists));
        }
        let climbs = path::components(&value).take_while(|part| *part == b"..").count();
        if climbs > self.path(directory).len() {
            return Err(EntryError::LinkOutside);
        }
        let value = self.intern(&value)?;
        self.attach(directory, name, Content::Link(value)).map(|_node| ())
    }

    /// The value that `readlink` will return.
    fn link_value(&mut self, directory: &[&[u8]], target: &[u8]) -> Result<Vec<u8>, EntryError> {
        let mut lexical = directory.to_vec();
        if target.contains(&0) || !path::extend(&mut lexical, target) || lexical.is_empty() {
            return Err(EntryError::LinkOutside);
        }
        let mut trail = Trail::new(LinkAllowance::Library);
        let path = lexical.join(&b'/');
        let followed = self.follow(ROOT, &path, &mut trail);
        self.spend_lookups(trail.components())?;
        let resolved = match followed {
            Ok(ROOT) => return Err(EntryError::LinkOutside),
            Ok(node) => self.path(node),
            Err(LookupError::NotFound) => lexical,
            Err(LookupError::TooManyLinks) => return Err(EntryError::LinkLoop),
            Err(error @ (LookupError::NotADirectory | LookupError::NameTooLong)) => {
                return Err(EntryError::LinkTarget(error));
            }
        };
        let value = path::relative(directory, &resolved);
        if value.len() > MAX_PATH_BYTES {
            return Err(EntryError::Link(MakeError::NameTooLong));
        }
        Ok(value)
    }
}
