//! Plain scalars (without quotes).

use super::{Scanner, Style, Text};
use crate::{
    class::{self, BLANK, BREAK, FLOW, MARK},
    error::Error,
    token::{Token, TokenKind},
};

impl Scanner<'_> {
    /// Reads a plain scalar of one or more lines.
    pub(super) fn plain(&mut self) -> Result<(), Error> {
        let candidate = self.candidate()?;
        self.is_key_allowed = false;
        self.looks_ahead = true;
        let place = self.place();
        let indent = self.indent.map_or(0, |column| column + 1);
        let mut end = self.plain_line();
        let mut text = Text::source(place.offset(), end);
        let base = self.scratch.len();
        while self.skip_breaks(indent)? {
            let next = self.at;
            let next_end = if self.ends_plain(indent) { next } else { self.plain_line() };
            if next_end == next {
                // The next token is the first of its line.
                self.is_key_allowed = true;
                break;
            }
            if !text.is_scratch() {
                self.copy(place.offset(), end);
            }
            self.fold(end, next);
            self.copy(next, next_end);
            end = next_end;
            text = Text::scratch(base, self.scratch.len());
        }
        self.push_scalar(Token::new(TokenKind::Scalar(Style::Plain), place, end, text), candidate)
    }

    /// Reads words and the blanks between them up to the end of the line.
    /// Returns the end of the last word.
    fn plain_line(&mut self) -> usize {
        let start = self.at;
        while self.skip_plain() {}
        let line = &self.input[start..self.at];
        let blanks = line.iter().rev().take_while(|&&byte| class::of(byte) & BLANK != 0);
        self.at - blanks.count()
    }

    /// Skips characters up to one that may end the scalar. Skips that one too and returns
    /// true if it is part of the scalar.
    #[inline]
    fn skip_plain(&mut self) -> bool {
        let rest = self.rest();
        let stops = BREAK | MARK | self.wide | if self.flow_depth > 0 { FLOW } else { 0 };
        let run = rest.iter().position(|&byte| class::of(byte) & stops != 0);
        self.at += run.unwrap_or(rest.len());
        let is_text = match self.byte(0) {
            b':' => !self.is_blank_or_end(1),
            b'#' => self.input[..self.at].last().is_none_or(|&byte| class::of(byte) & BLANK == 0),
            0x80.. => class::break_len(self.rest()) == 0,
            _ => false,
        };
        self.at += usize::from(is_text);
        is_text
    }

    /// The line that starts here is not part of the scalar.
    fn ends_plain(&self, indent: usize) -> bool {
        self.flow_depth == 0 && self.column() < indent
            || self.byte(0) == b'#'
            || self.is_document_marker()
    }

    /// Skips line breaks and the blanks around them. Returns false if there is
    /// no line break.
    fn skip_breaks(&mut self, indent: usize) -> Result<bool, Error> {
        if !self.skip_break() {
            return Ok(false);
        }
        loop {
            self.at += class::spaces(self.rest());
            if self.byte(0) == b'\t' {
                if self.column() < indent {
                    return Err(self.error("found a tab character that violates indentation"));
                }
                self.at += 1;
            } else if !self.skip_break() {
                return Ok(true);
            }
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        while class::of(self.byte(0)) & BLANK != 0 {
            self.at += 1;
        }
    }

    /// Appends a range of the document to the scratch buffer.
    pub(super) fn copy(&mut self, start: usize, end: usize) {
        self.scratch.extend_from_slice(&self.input[start..end]);
    }

    /// Appends the folded line breaks between `start` and `end`: one break
    /// becomes a space, and of several the first is dropped.
    pub(super) fn fold(&mut self, start: usize, end: usize) {
        let base = self.scratch.len();
        self.unfold(start, end);
        if self.scratch.get(base) == Some(&b'\n') {
            if self.scratch.len() == base + 1 {
                self.scratch[base] = b' ';
            } else {
                self.scratch.remove(base);
            }
        }
    }

    /// Appends the line breaks between `start` and `end`.
    pub(super) fn unfold(&mut self, start: usize, end: usize) {
        let mut gap = &self.input[start..end];
        while let [_, rest @ ..] = gap {
            let width = class::break_len(gap);
            match width {
                0 => {}
                3 => self.scratch.extend_from_slice(&gap[..3]),
                _ => self.scratch.push(b'\n'),
            }
            gap = gap.get(width..).filter(|_| width > 0).unwrap_or(rest);
        }
    }
}
