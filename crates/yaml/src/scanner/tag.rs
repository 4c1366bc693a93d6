//! Tags.

use super::{Scanner, Text};
use crate::{
    class::{self, URI, WORD},
    error::Error,
    offset::Offset,
    token::TokenKind,
};

impl Scanner<'_> {
    /// `!suffix`, `!handle!suffix`, `!<uri>` or a bare `!`
    pub(super) fn tag(&mut self) -> Result<(), Error> {
        self.expect_key()?;
        self.is_key_allowed = false;
        let place = self.place();
        let base = self.scratch.len();
        let handle = if self.byte(1) == b'<' { self.verbatim_tag()? } else { self.short_tag()? };
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        let text = Text::scratch(base, self.scratch.len());
        self.push(TokenKind::Tag { handle: Offset::new(handle) }, place, text);
        Ok(())
    }

    fn verbatim_tag(&mut self) -> Result<usize, Error> {
        self.at += 2;
        self.uri(false)?;
        if self.byte(0) != b'>' {
            return Err(self.error("did not find the expected '>'"));
        }
        self.at += 1;
        Ok(0)
    }

    /// Returns the length of the handle in the scratch buffer, in bytes.
    fn short_tag(&mut self) -> Result<usize, Error> {
        let base = self.scratch.len();
        self.handle();
        let len = self.scratch.len() - base;
        if len > 1 && self.scratch.ends_with(b"!") {
            self.uri(false)?;
            return Ok(len);
        }
        self.uri(true)?;
        // `!` alone is the tag, not a handle.
        Ok(usize::from(self.scratch.len() > base + 1))
    }

    /// Appends a handle: `!`, `!word` or `!word!`.
    pub(super) fn handle(&mut self) {
        let start = self.at;
        self.at += 1;
        self.word();
        if self.byte(0) == b'!' {
            self.at += 1;
        }
        self.copy(start, self.at);
    }

    /// Appends a URI and decodes its escapes.
    pub(super) fn uri(&mut self, may_be_empty: bool) -> Result<(), Error> {
        let base = self.scratch.len();
        loop {
            let start = self.at;
            while class::of(self.byte(0)) & (URI | WORD) != 0 {
                self.at += 1;
            }
            self.copy(start, self.at);
            if self.byte(0) != b'%' {
                break;
            }
            self.uri_escape()?;
        }
        if self.scratch.len() == base && !may_be_empty {
            return Err(self.error("did not find expected tag URI"));
        }
        Ok(())
    }

    /// Decodes one UTF-8 character of which each byte is written as `%XX`.
    fn uri_escape(&mut self) -> Result<(), Error> {
        let lead = self.uri_octet()?;
        let trailing = match lead {
            0x00..=0x7F => 0,
            0xC0..=0xDF => 1,
            0xE0..=0xEF => 2,
            0xF0..=0xF7 => 3,
            _ => return Err(self.error("found an incorrect leading UTF-8 octet")),
        };
        self.take_octet(lead);
        for _ in 0..trailing {
            let octet = self.uri_octet()?;
            if octet & 0xC0 != 0x80 {
                return Err(self.error("found an incorrect trailing UTF-8 octet"));
            }
            self.take_octet(octet);
        }
        Ok(())
    }

    fn take_octet(&mut self, octet: u8) {
        self.scratch.push(octet);
        self.at += 3;
    }

    fn uri_octet(&self) -> Result<u8, Error> {
        let digit = |ahead| char::from(self.byte(ahead)).to_digit(16);
        match (self.byte(0), digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => Ok(u8::try_from(high << 4 | low).unwrap_or(u8::MAX)),
            _ => Err(self.error("did not find URI escaped octet")),
        }
    }
}
