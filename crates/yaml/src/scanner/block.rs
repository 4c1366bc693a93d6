//! Block scalars: literal (`|`) and folded (`>`).

use super::{Scanner, Style, Text};
use crate::{
    class::{self, BLANK},
    error::Error,
    token::TokenKind,
};

/// Treatment of the line breaks at the end of the scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// The options after `|` or `>`.
struct BlockHeader {
    chomping: Chomping,
    /// Indentation of the text relative to its parent, in columns.
    increment: Option<usize>,
}

/// A block scalar in the scratch buffer.
struct BlockLines {
    is_folded: bool,
    /// End of the last line's characters.
    end: usize,
    /// Length in bytes of the line break after them, without those of empty
    /// lines.
    break_len: usize,
    /// The last line started with a blank.
    is_indented: bool,
}

impl Scanner<'_> {
    /// `|` or `>` and the lines below it
    pub(super) fn block_scalar(&mut self, style: Style) -> Result<(), Error> {
        self.forget_key()?;
        self.is_key_allowed = true;
        let place = self.place();
        self.at += 1;
        let header = self.block_header()?;
        self.end_directive_or_header()?;
        let base = self.scratch.len();
        let lines = BlockLines {
            is_folded: style == Style::Folded,
            end: base,
            break_len: 0,
            is_indented: false,
        };
        let lines = self.block_lines(header.increment, lines)?;
        match header.chomping {
            Chomping::Strip => self.scratch.truncate(lines.end),
            Chomping::Clip => self.scratch.truncate(lines.end + lines.break_len),
            Chomping::Keep => {}
        }
        let text = Text::scratch(base, self.scratch.len());
        self.push(TokenKind::Scalar(style), place, text);
        Ok(())
    }

    fn block_header(&mut self) -> Result<BlockHeader, Error> {
        let mut header = BlockHeader { chomping: Chomping::Clip, increment: None };
        let has_chomping = self.chomping(&mut header);
        if self.byte(0).is_ascii_digit() {
            if self.byte(0) == b'0' {
                return Err(self.error("found an indentation indicator equal to 0"));
            }
            header.increment = Some(usize::from(self.byte(0) - b'0'));
            self.at += 1;
            if !has_chomping {
                self.chomping(&mut header);
            }
        }
        Ok(header)
    }

    fn chomping(&mut self, header: &mut BlockHeader) -> bool {
        header.chomping = match self.byte(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return false,
        };
        self.at += 1;
        true
    }

    fn block_lines(
        &mut self,
        increment: Option<usize>,
        mut lines: BlockLines,
    ) -> Result<BlockLines, Error> {
        let parent = self.indent;
        let indent = increment.map(|columns| parent.map_or(columns, |column| column + columns));
        let deepest = self.empty_lines(indent)?;
        let indent = indent.unwrap_or_else(|| deepest.max(parent.map_or(1, |column| column + 1)));
        while self.column() == indent && self.at < self.input.len() {
            let is_indented = class::of(self.byte(0)) & BLANK != 0;
            if !is_indented {
                self.join(&lines);
            }
            lines.is_indented = is_indented;
            let start = self.at;
            self.skip_line_rest();
            self.copy(start, self.at);
            lines.end = self.scratch.len();
            self.take_break();
            lines.break_len = self.scratch.len() - lines.end;
            self.empty_lines(Some(indent))?;
        }
        Ok(lines)
    }

    /// Folds the line break before a line, unless that line or the one before
    /// it starts with a blank.
    fn join(&mut self, lines: &BlockLines) {
        if !lines.is_folded || lines.is_indented || lines.break_len != 1 {
            return;
        }
        if self.scratch.len() == lines.end + 1 {
            self.scratch[lines.end] = b' ';
        } else {
            self.scratch.remove(lines.end);
        }
    }

    /// Reads the line breaks of lines with only indentation, and the
    /// indentation of the line after them. Returns the deepest indentation.
    fn empty_lines(&mut self, indent: Option<usize>) -> Result<usize, Error> {
        let mut deepest = 0;
        loop {
            while self.byte(0) == b' ' && indent.is_none_or(|indent| self.column() < indent) {
                self.at += 1;
            }
            deepest = deepest.max(self.column());
            if self.byte(0) == b'\t' && indent.is_none_or(|indent| self.column() < indent) {
                return Err(
                    self.error("found a tab character where an indentation space is expected")
                );
            }
            if !self.take_break() {
                return Ok(deepest);
            }
        }
    }

    /// Reads to the end of a directive or of a block scalar's first line. Only
    /// a comment is allowed there.
    pub(super) fn end_directive_or_header(&mut self) -> Result<(), Error> {
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_line_rest();
        }
        if !self.skip_break() && self.at < self.input.len() {
            return Err(self.error("did not find expected comment or line break"));
        }
        Ok(())
    }
}
