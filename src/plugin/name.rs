//! The name a plugin is asked for by.

use std::{fmt, sync::Arc};

use thiserror::Error;

/// Longest socket file name in bytes: `NAME_MAX` of Linux file systems.
const MAX_FILE_NAME: usize = 255;

/// `metadata.name`, with `-` and `spec.version` behind it when there is one.
///
/// It is the stem of the socket's file name and what an Application writes into
/// `spec.source.plugin.name`. It holds neither `/` nor a control character, so
/// it cannot lead out of the socket directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(Arc<str>);

impl PluginName {
    /// Joins a name and a version the way Argo CD does: an empty version adds nothing.
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

/// Suffix that Argo CD appends to a plugin's name to find its socket.
pub const SOCKET_SUFFIX: &str = ".sock";

/// Longest path of a socket in bytes: the size of `sockaddr_un`'s path without the final NUL.
pub const MAX_SOCKET_PATH: usize = 107;

/// Default directory of the sockets, where Argo CD's repo-server searches for them.
pub const DEFAULT_SOCKET_DIR: &str = "/home/argocd/cmp-server/plugins";

impl fmt::Display for PluginName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a name cannot be the name of a socket file.
///
/// Argo CD itself takes any text and would place the socket outside its directory.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidName {
    /// A character that no socket file may carry.
    #[error("{field} `{text}` holds {character:?}, which cannot be part of a socket's file name")]
    Character {
        /// The key in plugin.yaml.
        field: &'static str,
        /// What it holds.
        text: String,
        /// The first such character.
        character: char,
    },
    /// Longer than a file name may be.
    #[error("the socket's file name would be {length} bytes long; {MAX_FILE_NAME} are possible")]
    Long {
        /// Bytes with the suffix.
        length: usize,
    },
}

impl InvalidName {
    /// The key in plugin.yaml that is to be changed.
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
    fn names_that_lead_out_of_the_directory_are_refused() {
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
    fn blanks_and_dots_are_as_good_as_they_are_to_argo_cd() {
        assert_eq!(PluginName::new("my plugin", "..").unwrap().as_str(), "my plugin-..");
    }

    #[test]
    fn a_name_is_as_long_as_a_file_name_may_be() {
        assert!(PluginName::new(&"x".repeat(250), "").is_ok());
        let error = PluginName::new(&"x".repeat(251), "").unwrap_err();
        assert!(error.to_string().contains("256 bytes"), "{error}");
    }
}
