//! The directives `%YAML` and `%TAG`.

use super::{Scanner, Text};
use crate::{
    class::{self, BLANK},
    error::Error,
    offset::Offset,
    token::TokenKind,
};

/// Longest major or minor version in digits. The limit is go-yaml's.
const MAX_VERSION_DIGITS: usize = 2;

impl Scanner<'_> {
    /// A line that starts with `%`
    pub(super) fn directive(&mut self) -> Result<(), Error> {
        let place = self.place();
        self.at += 1;
        let name = self.directive_name()?;
        let base = self.scratch.len();
        let kind = match self.text(name) {
            b"YAML" => self.version()?,
            b"TAG" => self.tag_directive()?,
            _ => return Err(self.error("found unknown directive name")),
        };
        let text = Text::scratch(base, self.scratch.len());
        self.push(kind, place, text);
        self.end_directive_or_header()
    }

    fn directive_name(&mut self) -> Result<Text, Error> {
        let name = self.word();
        if name == Text::EMPTY {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }
        Ok(name)
    }

    fn version(&mut self) -> Result<TokenKind, Error> {
        self.skip_blanks();
        let major = self.version_number()?;
        if self.byte(0) != b'.' {
            return Err(self.error("did not find expected digit or '.' character"));
        }
        self.at += 1;
        let minor = self.version_number()?;
        Ok(TokenKind::VersionDirective { is_supported: (major, minor) == (1, 1) })
    }

    fn version_number(&mut self) -> Result<u32, Error> {
        let start = self.at;
        let mut number = 0;
        while let Some(digit) = char::from(self.byte(0)).to_digit(10) {
            if self.at - start >= MAX_VERSION_DIGITS {
                return Err(self.error("found extremely long version number"));
            }
            number = number * 10 + digit;
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("did not find expected version number"));
        }
        Ok(number)
    }

    fn tag_directive(&mut self) -> Result<TokenKind, Error> {
        self.skip_blanks();
        let base = self.scratch.len();
        if self.byte(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }
        self.handle();
        let handle = self.scratch.len() - base;
        if handle > 1 && !self.scratch.ends_with(b"!") {
            return Err(self.error("did not find expected '!'"));
        }
        if class::of(self.byte(0)) & BLANK == 0 {
            return Err(self.error("did not find expected whitespace"));
        }
        self.skip_blanks();
        self.uri(false)?;
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(TokenKind::TagDirective { handle: Offset::new(handle) })
    }
}
