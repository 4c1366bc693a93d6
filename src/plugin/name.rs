//! The name of a plugin.

use std::{fmt, sync::Arc};

use thiserror::Error;

/// Longest socket file name in bytes: `NAME_MAX` of Linux file systems.
const MAX_FILE_NAME: usize = 255;

/// `metadata.name`, followed by `-` and `spec.version` if there is a version.
///
/// The socket's file name begins with it, and Applications use it in
/// `spec.source.plugin.name`. It has no `/` and no control character, so the
/// socket cannot be outside its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(Arc<str>);

impl PluginName {
    /// Joins a name and a version as Argo CD does; the version may be empty.
    pub fn new(name: &str, version: &str) -> Result<Self, InvalidName> {
        check("metadata.name", name)?;
        if version.is_empty() {
            return Self::sized(name.into());
        }
        check("spec.version", version)?;
        Self::sized(format!("{name}-{version}").into())
    }

    fn sized(full: Arc<str>) -> Result<Self, InvalidName> {
        let length = full.len() + SOCKET_SUFFIX.len();
        if length > MAX_FILE_NAME {
            return Err(InvalidName::Long { length });
        }
        Ok(Self(full))
    }

    /// The name as Applications write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file name of the plugin's socket.
    #[must_use]
    pub fn socket_file(&self) -> String {
        format!("{}{SOCKET_SUFFIX}", self.0)
    }
}

/// Argo CD appends this suffix to a plugin's name to find its socket.
pub const SOCKET_SUFFIX: &str = ".sock";

/// Longest path of a socket in bytes: the size of `sockaddr_un`'s path without the final NUL.
pub const MAX_SOCKET_PATH: usize = 107;

/// Default directory of sockets: the one where Argo CD's repo-server searches.
pub const DEFAULT_SOCKET_DIR: &str = "/home/argocd/cmp-server/plugins";

impl fmt::Display for PluginName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A name that cannot be the name of a socket file. Argo CD accepts any text and
/// can create the socket outside its directory.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidName {
    /// `/` or a control character.
    #[error(
        "{field} `{text}` contains {character:?}, which cannot be part of a socket's file name"
    )]
    Character {
        /// The key in plugin.yaml.
        field: &'static str,
        /// The key's value.
        text: String,
        /// The first invalid character.
        character: char,
    },
    /// Longer than a file name can be.
    #[error("the socket's file name would have {length} bytes: the limit is {MAX_FILE_NAME} bytes")]
    Long {
        /// Length of the file name in bytes, with the suffix.
        length: usize,
    },
}

impl InvalidName {
    /// The key in plugin.yaml that must be changed.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Character { field, .. } => field,
            Self::Long { .. } => "metadata.name",
        }
    }
}

fn check(field: &'static str, text: &str) -> Result<(), InvalidName> {
    match text.chars().find(|c| *c == '/' || c.is_control()) {
        Some(character) => Err(InvalidName::Character { field, text: text.to_owned(), character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_becomes_part_of_the_name() {
        let name = PluginName::new("helm", "v1.0").unwrap();
        assert_eq!(name.as_str(), "helm-v1.0");
        assert_eq!(name.socket_file(), "helm-v1.0.sock");
    }

    #[test]
    fn an_empty_version_adds_nothing() {
        assert_eq!(PluginName::new("helm", "").unwrap().socket_file(), "helm.sock");
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for (name, version) in [("../x", ""), ("a/b", ""), ("a", "b/c"), ("/", "")] {
            assert!(PluginName::new(name, version).is_err(), "{name} {version}");
        }
    }

    #[test]
    fn control_characters_are_refused_with_their_field() {
        let error = PluginName::new("a", "1\0").unwrap_err();
        assert_eq!(error.field(), "spec.version");
        assert!(PluginName::new("a\n", "").is_err());
    }

    #[test]
    fn spaces_and_dots_are_accepted_as_in_argo_cd() {
        assert_eq!(PluginName::new("my plugin", "..").unwrap().as_str(), "my plugin-..");
    }

    #[test]
    fn a_name_is_at_most_as_long_as_a_file_name() {
        assert!(PluginName::new(&"x".repeat(250), "").is_ok());
        let error = PluginName::new(&"x".repeat(251), "").unwrap_err();
        assert!(error.to_string().contains("256 bytes"), "{error}");
    }
}
