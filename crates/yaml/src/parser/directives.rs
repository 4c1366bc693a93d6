//! The directives `%YAML` and `%TAG`.

use std::collections::HashMap;

use crate::{error::Error, place::Place};

/// Most `%TAG` directives of a document. Each takes the memory of a hundred
/// bytes of text, and go-yaml compares each with all others.
const MAX_TAGS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Directives {
    has_version: bool,
    /// Prefixes by handle. A map keeps lookups fast for any number of
    /// directives.
    prefixes: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of all handles and prefixes.
    bytes: usize,
}

impl Directives {
    pub(super) fn set_version(&mut self, is_supported: bool, place: Place) -> Result<(), Error> {
        if self.has_version {
            return Err(Error::parser("found duplicate %YAML directive", place));
        }
        if !is_supported {
            return Err(Error::parser("found incompatible YAML document", place));
        }
        self.has_version = true;
        Ok(())
    }

    pub(super) fn add_tag(&mut self, tag: (&[u8], &[u8]), place: Place) -> Result<(), Error> {
        let (handle, prefix) = tag;
        self.bytes += handle.len() + prefix.len();
        if self.prefixes.insert(handle.into(), prefix.into()).is_some() {
            return Err(Error::parser("found duplicate %TAG directive", place));
        }
        if self.prefixes.len() > MAX_TAGS {
            let problem = format!("found more than {MAX_TAGS} %TAG directives");
            return Err(Error::parser(&problem, place));
        }
        Ok(())
    }

    /// Memory in bytes. The number of directives is limited.
    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    /// The prefix that a tag handle stands for, or `None` if it is not
    /// declared.
    pub(super) fn resolve(&self, handle: &[u8]) -> Option<&[u8]> {
        let default: Option<&[u8]> = match handle {
            b"" => Some(b""),
            b"!" => Some(b"!"),
            b"!!" => Some(b"tag:yaml.org,2002:"),
            _ => None,
        };
        self.prefixes.get(handle).map(|prefix| &**prefix).or(default)
    }
}
