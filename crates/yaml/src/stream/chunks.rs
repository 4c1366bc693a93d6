//! Splits an output at its separators.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

use super::space_len;
use crate::error::shown;

/// A line that separates two documents, with the end of the line before it.
const SEPARATOR: &[u8] = b"\n---\n";

/// The end of a line that changes if a line break's return is dropped.
const DOUBLE_RETURN: &[u8] = b"\r\r\n";

/// Bytes on each side of a place in which a separator is looked for, and before it in
/// which the line before the separator begins. To search them takes 0.1 ms, and 1 ms if the
/// text resembles separators.
const NEAR: usize = 1 << 20;

/// Separators on each side that are examined: one text can have hundreds of thousands that
/// belong to documents.
const EXAMINED: usize = 64;

/// Finds the line nearest to the middle that ends one document and begins the next, whatever
/// comes before and after. Each part has at least an eighth of the text.
pub(super) fn separator_near_middle(text: &[u8]) -> Option<Range<usize>> {
    let (place, near) = (text.len() / 2, NEAR.min(text.len() / 8 * 3));
    let (from, to) = (place - near, place + near);
    let separator = |start: usize| separator_at(text, start + 1);
    let mut before = memmem::rfind_iter(&text[from..place], SEPARATOR).take(EXAMINED);
    let mut after = memmem::find_iter(&text[place..to], SEPARATOR).take(EXAMINED);
    let before = before.find_map(|found| separator(from + found));
    let after = after.find_map(|found| separator(place + found));
    before.into_iter().chain(after).min_by_key(|line| line.start.abs_diff(place))
}

/// The separator that starts at `start`, unless it is part of a document.
fn separator_at(text: &[u8], start: usize) -> Option<Range<usize>> {
    let from = start.saturating_sub(NEAR);
    let before = memchr::memrchr(b'\n', &text[from..start - 1]);
    let line = before.map(|end| from + end + 1).or((from == 0).then_some(0))?;
    // A separator right after another one belongs to the text behind it.
    (!text[line..].starts_with(b"---")).then_some(start..start + SEPARATOR.len() - 1)
}

/// The text of one document.
pub(super) struct Chunk<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// Its offset in the output.
    pub(super) start: usize,
}

/// A line that starts with `---` but is not a separator.
pub(super) struct BadSeparator {
    pub(super) text: String,
    pub(super) offset: usize,
}

pub(super) struct Chunks<'a> {
    output: &'a [u8],
    at: usize,
    end: usize,
    separators: memmem::Finder<'static>,
    has_double_returns: bool,
}

impl<'a> Chunks<'a> {
    /// The chunks from `start` to `end`. A line break at `end` only avoids a
    /// copy.
    pub(super) fn new(output: &'a [u8], start: usize, end: usize) -> Self {
        let text = output.get(start..end).unwrap_or_default();
        let separators = memmem::Finder::new(b"\n---");
        let has_double_returns = memmem::find(text, DOUBLE_RETURN).is_some();
        Self { output, at: start, end, separators, has_double_returns }
    }

    /// Offset of the next separator. `from` is the start of a line.
    fn separator(&self, from: usize) -> Option<usize> {
        let text = self.output.get(from..self.end)?;
        if text.starts_with(b"---") {
            return Some(from);
        }
        self.separators.find(text).map(|offset| from + offset + 1)
    }

    fn line_end(&self, from: usize) -> usize {
        let line = &self.output[from..self.end];
        memchr::memchr(b'\n', line).map_or(self.end, |offset| from + offset + 1)
    }

    /// Checks that only a comment follows the separator at `offset`.
    fn check_separator(&self, offset: usize, line_end: usize) -> Result<(), BadSeparator> {
        let rest = trim(&self.output[offset + 3..line_end]);
        match rest {
            [] | [b'#', ..] => Ok(()),
            _ => {
                let text = shown(rest).into_owned();
                Err(BadSeparator { text, offset })
            }
        }
    }

    /// The lines from `start` to `end`, with an LF after the last one.
    fn chunk(&self, start: usize, end: usize) -> Chunk<'a> {
        let text = &self.output[start..end];
        let is_complete = text.ends_with(b"\n");
        let has_double_return =
            self.has_double_returns && memmem::find(text, DOUBLE_RETURN).is_some();
        let text = match self.output.get(start..=end) {
            _ if has_double_return => Cow::Owned(normalised(text)),
            _ if is_complete => Cow::Borrowed(text),
            Some(longer) if longer.ends_with(b"\n") => Cow::Borrowed(longer),
            Some(_) | None => Cow::Owned([text, b"\n"].concat()),
        };
        Chunk { text, start }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, BadSeparator>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        if start >= self.end {
            return None;
        }
        // A separator at the start belongs to the text after it.
        let mut from = start;
        loop {
            let Some(separator) = self.separator(from) else {
                self.at = self.end;
                return Some(Ok(self.chunk(start, self.end)));
            };
            let line_end = self.line_end(separator);
            if let Err(error) = self.check_separator(separator, line_end) {
                self.at = self.end;
                return Some(Err(error));
            }
            if separator > start {
                self.at = line_end;
                return Some(Ok(self.chunk(start, separator)));
            }
            from = line_end;
        }
    }
}

/// Replaces CR LF by LF. This matters only after another CR.
fn normalised(text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(text.len() + 1);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let line =
            line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.extend_from_slice(line);
        lines.push(b'\n');
    }
    lines
}

/// Trims Unicode's white space.
fn trim(text: &[u8]) -> &[u8] {
    let mut text = text;
    while let Some(width) = space_len(text) {
        text = &text[width..];
    }
    loop {
        let last = (1..=4).find(|&width| {
            let start = text.len().checked_sub(width);
            start.is_some_and(|start| space_len(&text[start..]) == Some(width))
        });
        let Some(width) = last else { return text };
        text = &text[..text.len() - width];
    }
}
