//! Anchors and aliases.

use super::{Scanner, Text};
use crate::{
    class::{self, WORD},
    error::Error,
    token::TokenKind,
};

impl Scanner<'_> {
    /// `&name` or `*name`
    pub(super) fn named(&mut self, kind: TokenKind) -> Result<(), Error> {
        self.expect_key()?;
        self.is_key_allowed = false;
        let place = self.place();
        self.at += 1;
        let text = self.word();
        let is_delimited = self.is_blank_or_end(0)
            || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if text == Text::EMPTY || !is_delimited {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }
        self.push(kind, place, text);
        Ok(())
    }

    /// Reads letters, digits, `-` and `_`.
    pub(super) fn word(&mut self) -> Text {
        let start = self.at;
        while class::of(self.byte(0)) & WORD != 0 {
            self.at += 1;
        }
        if self.at == start { Text::EMPTY } else { Text::source(start, self.at) }
    }
}
