//! The application's directory in the repository.

use super::index::{FileIndex, LinkAllowance, MAX_COMPONENT_BYTES, NodeId, NodeKind, ROOT, Trail};
use cmp_go::path;

/// An application's directory, resolved as Argo CD's `MatchRepository` does.
///
/// Each component is resolved as if the repository were the root of a file
/// system: links are followed, and `..` stops at the root. A component that
/// does not exist is kept, so the directory may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppDirectory {
    path: Vec<u8>,
}

/// The reason why an application's path is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppDirectoryError {
    /// The path follows more than 255 links.
    #[error("too many levels of symbolic links")]
    TooManyLinks,
    /// A component has more than 255 bytes.
    #[error("file name too long")]
    NameTooLong,
    /// A component has a NUL byte.
    #[error("invalid argument")]
    Nul,
}

impl AppDirectory {
    /// Resolves the path of a request. The path need not be clean.
    pub fn resolve(index: &FileIndex, path: &[u8]) -> Result<Self, AppDirectoryError> {
        let mut trail = Trail::new(LinkAllowance::Library);
        let mut pending = vec![path];
        let mut resolved = Resolved { index, above: Vec::new() };
        while let Some(path) = pending.pop() {
            let (name, rest) = path::split_first(path);
            if !rest.is_empty() {
                pending.push(rest);
            }
            if let Some(target) = resolved.enter(name)? {
                trail.follow_link().map_err(|_loop| AppDirectoryError::TooManyLinks)?;
                pending.push(target);
            }
        }
        let names: Vec<&[u8]> = resolved.above.iter().map(|(name, _node)| *name).collect();
        Ok(Self { path: names.join(&b'/') })
    }

    /// The path relative to the repository, clean and without links. Empty for
    /// the repository's root.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }
}

/// The components resolved so far, each with its node if it exists.
struct Resolved<'a> {
    index: &'a FileIndex,
    above: Vec<(&'a [u8], Option<NodeId>)>,
}

impl<'a> Resolved<'a> {
    /// Resolves one component. Returns the target if the component is a link.
    fn enter(&mut self, name: &'a [u8]) -> Result<Option<&'a [u8]>, AppDirectoryError> {
        match name {
            b"" | b"." => return Ok(None),
            b".." => {
                self.above.pop();
                return Ok(None);
            }
            name if name.len() > MAX_COMPONENT_BYTES => return Err(AppDirectoryError::NameTooLong),
            name if name.contains(&0) => return Err(AppDirectoryError::Nul),
            _ => {}
        }
        let directory = self.above.last().map_or(Some(ROOT), |&(_name, node)| node);
        let node = directory.and_then(|directory| self.index.child(directory, name));
        if let Some(NodeKind::Link(target)) = node.map(|node| self.index.kind(node)) {
            return Ok(Some(target));
        }
        self.above.push((name, node));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(path: &str) -> Result<String, AppDirectoryError> {
        let mut index = FileIndex::default();
        index.add_file(b"apps/keda/Chart.yaml").unwrap();
        index.add_symlink(b"link", b"apps/keda").unwrap();
        index.add_symlink(b"apps/self", b"self").unwrap();
        index.add_symlink(b"apps/up", b"../link").unwrap();
        index.add_symlink(b"dangling", b"apps/nowhere").unwrap();
        let app = AppDirectory::resolve(&index, path.as_bytes())?;
        Ok(String::from_utf8(app.path().to_vec()).unwrap())
    }

    #[test]
    fn components_are_resolved_inside_the_repository() {
        for (path, resolved) in [
            ("", ""),
            (".", ""),
            ("apps/./keda//", "apps/keda"),
            ("/apps/keda", "apps/keda"),
            ("../../apps", "apps"),
            ("link", "apps/keda"),
            ("apps/up/../self/..", "apps"),
            ("link/Chart.yaml/below", "apps/keda/Chart.yaml/below"),
            ("missing/../apps", "apps"),
            ("dangling/x", "apps/nowhere/x"),
        ] {
            let found = resolve(path);
            if path.contains("self") {
                assert_eq!(found, Err(AppDirectoryError::TooManyLinks), "{path}");
            } else {
                assert_eq!(found.as_deref(), Ok(resolved), "{path}");
            }
        }
    }

    #[test]
    fn an_impossible_directory_name_is_refused() {
        assert_eq!(resolve(&"x".repeat(256)), Err(AppDirectoryError::NameTooLong));
        assert_eq!(resolve("a\0b"), Err(AppDirectoryError::Nul));
    }
}
