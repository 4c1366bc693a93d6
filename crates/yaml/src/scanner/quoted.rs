//! Quoted scalars.

use super::{Scanner, Style, Text};
use crate::{
    class::{self, BLANK, BREAK},
    error::Error,
    token::{Token, TokenKind},
};

impl Scanner<'_> {
    /// `'…'` or `"…"`
    pub(super) fn quoted(&mut self, style: Style) -> Result<(), Error> {
        let candidate = self.candidate()?;
        self.is_key_allowed = false;
        self.looks_ahead = true;
        let place = self.place();
        let quote = self.byte(0);
        self.at += 1;
        let start = self.at;
        self.skip_quoted_run(quote);
        let end = self.at;
        let text = if self.byte(0) == quote && !self.is_quoted_quote(quote) {
            Text::source(start, end)
        } else {
            self.rewrite_quoted(start, quote)?
        };
        self.at += 1;
        self.push_scalar(Token::new(TokenKind::Scalar(style), place, self.at, text), candidate)
    }

    /// Decodes a scalar whose text differs from its characters in the document.
    fn rewrite_quoted(&mut self, start: usize, quote: u8) -> Result<Text, Error> {
        let base = self.scratch.len();
        let mut start = start;
        loop {
            let here = self.at;
            if self.is_quoted_quote(quote) {
                self.copy(start, here + 1);
                self.at += 2;
            } else if self.byte(0) == quote {
                self.copy(start, here);
                return Ok(Text::scratch(base, self.scratch.len()));
            } else if quote == b'"' && self.byte(0) == b'\\' {
                self.copy(start, here);
                self.escaped()?;
            } else if here >= self.input.len() {
                return Err(self.error("found unexpected end of stream"));
            } else {
                let end = self.trim(start);
                self.copy(start, end);
                self.skip_quoted_breaks()?;
                self.fold(end, self.at);
            }
            start = self.at;
            self.skip_quoted_run(quote);
        }
    }

    /// Decodes a backslash and the character or line break after it.
    fn escaped(&mut self) -> Result<(), Error> {
        self.at += 1;
        if !self.skip_break() {
            self.at -= 1;
            return self.escape();
        }
        let gap = self.at;
        self.skip_quoted_breaks()?;
        self.unfold(gap, self.at);
        Ok(())
    }

    /// Skips line breaks and the blanks around them. A document marker after
    /// them is an error.
    fn skip_quoted_breaks(&mut self) -> Result<(), Error> {
        loop {
            self.skip_blanks();
            if !self.skip_break() {
                break;
            }
        }
        if self.is_document_marker() {
            return Err(self.error("found unexpected document indicator"));
        }
        Ok(())
    }

    /// Skips characters that need no decoding, blanks included.
    fn skip_quoted_run(&mut self, quote: u8) {
        let stops = BREAK | self.wide;
        loop {
            let rest = self.rest();
            let is_special =
                |&byte: &u8| byte == quote || byte == b'\\' || class::of(byte) & stops != 0;
            self.at += rest.iter().position(is_special).unwrap_or(rest.len());
            let byte = self.byte(0);
            let is_text = byte == b'\\' && quote == b'\''
                || byte >= 0x80 && class::break_len(self.rest()) == 0;
            if !is_text {
                return;
            }
            self.at += 1;
        }
    }

    /// `''` in a single-quoted scalar.
    fn is_quoted_quote(&self, quote: u8) -> bool {
        quote == b'\'' && self.byte(0) == quote && self.byte(1) == quote
    }

    /// End of the text from `start` to the current position, without trailing
    /// blanks.
    fn trim(&self, start: usize) -> usize {
        let text = &self.input[start..self.at];
        let kept = text.iter().rposition(|&byte| class::of(byte) & BLANK == 0);
        kept.map_or(start, |last| start + last + 1)
    }
}
