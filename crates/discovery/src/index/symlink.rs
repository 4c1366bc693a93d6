//! Adds symbolic links of an archive to the tree.

use super::entries::{MAX_PATH_BYTES, clean_name};
use super::entry_error::{EntryError, MakeError};
use super::lookup::{LinkAllowance, MAX_COMPONENT_BYTES, Trail};
use super::{Content, FileIndex, LookupError, NodeId, NodeKind, ROOT};
use cmp_go::path;

impl FileIndex {
    /// Adds a symbolic link and its missing parents. `target` is the value in the
    /// archive.
    ///
    /// As in Argo CD, the target must be the root or below it, and it must be missing or
    /// lead somewhere. The link is stored relative to the directory in its name, so no
    /// part of that may be a link.
    pub fn add_symlink(&mut self, name: &[u8], target: &[u8]) -> Result<(), EntryError> {
        let components = clean_name(name)?;
        let Some((last, above)) = components.split_last() else { return Ok(()) };
        let mut lexical = above.to_vec();
        if target.contains(&0) || !path::extend(&mut lexical, target) {
            return Err(EntryError::LinkOutside);
        }
        let directory = self.directory_of_link(above)?;
        self.check_target(&lexical)?;
        let value = path::relative(above, &lexical);
        if last.len() > MAX_COMPONENT_BYTES || value.len() > MAX_PATH_BYTES {
            return Err(EntryError::Link(MakeError::NameTooLong));
        }
        let name = self.intern(last)?;
        if self.child_named(directory, name).is_some() {
            return Err(EntryError::Link(MakeError::Exists));
        }
        let value = self.intern(&value)?;
        self.attach(directory, name, Content::Link(value)).map(|_node| ())
    }

    fn directory_of_link(&mut self, above: &[&[u8]]) -> Result<NodeId, EntryError> {
        let mut at = ROOT;
        for name in above {
            let Some(child) = self.child(at, name) else { break };
            if matches!(self.kind(child), NodeKind::Link(_)) {
                return Err(EntryError::LinkBelowLink);
            }
            at = child;
        }
        self.make_directories(above).map(|directory| directory.node)
    }

    fn check_target(&mut self, target: &[&[u8]]) -> Result<(), EntryError> {
        let mut trail = Trail::new(LinkAllowance::Kernel);
        let followed = self.follow(ROOT, &target.join(&b'/'), &mut trail);
        self.spend_lookups(trail.components())?;
        match followed {
            Ok(_) | Err(LookupError::NotFound) => Ok(()),
            Err(error) => Err(EntryError::LinkTarget(error)),
        }
    }
}
