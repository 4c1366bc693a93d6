//! What `%YAML` and `%TAG` ask for.

use crate::{error::Error, place::Place};

/// The directives of a document.
#[derive(Debug, Default)]
pub(super) struct Directives {
    has_version: bool,
    tags: Vec<TagDirective>,
}

#[derive(Debug)]
struct TagDirective {
    handle: Box<[u8]>,
    prefix: Box<[u8]>,
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
        if self.prefix(handle).is_some() {
            return Err(Error::parser("found duplicate %TAG directive", place));
        }
        self.tags.push(TagDirective { handle: handle.into(), prefix: prefix.into() });
        Ok(())
    }

    fn prefix(&self, handle: &[u8]) -> Option<&[u8]> {
        self.tags.iter().find(|tag| *tag.handle == *handle).map(|tag| &*tag.prefix)
    }

    /// What a tag's handle stands for.
    pub(super) fn resolve(&self, handle: &[u8]) -> Option<&[u8]> {
        let default: Option<&[u8]> = match handle {
            b"" => Some(b""),
            b"!" => Some(b"!"),
            b"!!" => Some(b"tag:yaml.org,2002:"),
            _ => None,
        };
        self.prefix(handle).or(default)
    }
}
