//! Scanner: from characters to tokens.
//!
//! Only the `:` after a key shows that it is a key. Tokens therefore wait in a
//! queue while the first of them may still be one.

mod block;
mod directive;
mod escape;
mod flow;
mod indent;
mod keys;
mod name;
mod plain;
mod queue;
mod quoted;
mod tag;

use self::{keys::Keys, queue::Queue};
use super::{
    class::{self, BLANK, BREAK, WIDE, break_len},
    error::Error,
    place::Place,
    reader::Source,
    token::{Style, Text, Token, TokenKind},
};

/// Deepest nesting of flow collections, and of block collections. The limit is
/// go-yaml's.
pub(super) const MAX_DEPTH: usize = 10_000;

/// Characters that go-yaml reads ahead before it decides on a token.
const LOOKAHEAD: usize = 4;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Memory of a scanner, for the next one. Its buffers are empty.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    queue: Queue,
    indents: Vec<Option<usize>>,
    keys: Keys,
    scratch: Vec<u8>,
}

/// Reads tokens from a document.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    input: &'a [u8],
    /// The error at the end of `input`, if the document continues with a bad
    /// character.
    fault: Option<&'a Error>,
    at: usize,
    line: usize,
    line_start: usize,
    queue: Queue,
    /// Number of open flow collections.
    flow_depth: usize,
    /// Column of the innermost block collection.
    indent: Option<usize>,
    /// Columns of the outer block collections.
    indents: Vec<Option<usize>>,
    keys: Keys,
    /// The next token may start a key.
    is_key_allowed: bool,
    scratch: Vec<u8>,
    /// Inside the current token go-yaml also reads [`LOOKAHEAD`] characters
    /// ahead.
    looks_ahead: bool,
    /// go-yaml found a second byte order mark. See `skip_mark`.
    loses_characters: bool,
    /// `WIDE` if there are line breaks other than LF.
    wide: u8,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a Source<'_>, buffers: Buffers) -> Self {
        let Buffers { queue, indents, keys, scratch } = buffers;
        Self {
            input: &source.text,
            fault: source.fault.as_ref(),
            at: 0,
            line: 0,
            line_start: 0,
            queue,
            flow_depth: 0,
            indent: None,
            indents,
            keys,
            is_key_allowed: true,
            scratch,
            looks_ahead: false,
            loses_characters: source.text.starts_with(BYTE_ORDER_MARK),
            wide: if source.has_rare_breaks { WIDE } else { 0 },
        }
    }

    /// The buffers for the next scanner, emptied.
    pub(super) fn into_buffers(self) -> Buffers {
        let Self { mut queue, mut indents, mut keys, mut scratch, .. } = self;
        queue.clear();
        indents.clear();
        keys.clear();
        scratch.clear();
        Buffers { queue, indents, keys, scratch }
    }

    /// Memory in bytes, without the document.
    pub(super) fn memory(&self) -> usize {
        self.scratch.capacity() + self.indents.len() * size_of::<Option<usize>>()
    }

    /// The next token, which is not consumed.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Token, Error> {
        if let Some(token) = self.queue.first()
            && !self.keys.is_waiting()
        {
            return Ok(token);
        }
        self.fill()
    }

    /// Consumes the token that `peek` returned.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.queue.take();
    }

    /// The characters of a token.
    #[inline]
    pub(super) fn text(&self, text: Text) -> &[u8] {
        let characters = if text.is_scratch() { &self.scratch } else { self.input };
        &characters[text.range()]
    }

    /// Scans until the first token of the queue can no longer become a key.
    fn fill(&mut self) -> Result<Token, Error> {
        loop {
            if let Some(token) = self.queue.first() {
                if !self.may_be_key(self.queue.first_number())? {
                    return Ok(token);
                }
            } else {
                self.scratch.clear();
            }
            self.fetch()?;
        }
    }

    fn fetch(&mut self) -> Result<(), Error> {
        self.looks_ahead = false;
        let fetched = self.fetch_token();
        let needed = if self.looks_ahead && fetched.is_err() { LOOKAHEAD } else { 1 };
        match self.fault {
            Some(fault) if self.characters_left() < needed => Err(fault.clone()),
            _ => fetched,
        }
    }

    fn fetch_token(&mut self) -> Result<(), Error> {
        self.skip_to_token();
        if self.characters_left() < LOOKAHEAD {
            if let Some(fault) = self.fault {
                return Err(fault.clone());
            }
            self.loses_characters = self.rest().starts_with(BYTE_ORDER_MARK);
        }
        self.close_blocks(Some(self.column()));
        match self.input.get(self.at) {
            None => self.end_stream(),
            Some(&byte) if self.at == self.line_start => self.fetch_at_line_start(byte),
            Some(&byte) => self.fetch_by_indicator(byte),
        }
    }

    fn fetch_at_line_start(&mut self, byte: u8) -> Result<(), Error> {
        match byte {
            b'%' => {
                self.end_document_part()?;
                self.directive()
            }
            b'-' | b'.' if self.is_document_marker() => {
                self.end_document_part()?;
                let kind =
                    if byte == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
                self.indicator(kind, 3);
                Ok(())
            }
            _ => self.fetch_by_indicator(byte),
        }
    }

    fn fetch_by_indicator(&mut self, byte: u8) -> Result<(), Error> {
        let in_flow = self.flow_depth > 0;
        match byte {
            b'[' => self.open_flow(TokenKind::FlowSequenceStart),
            b'{' => self.open_flow(TokenKind::FlowMappingStart),
            b']' => self.close_flow(TokenKind::FlowSequenceEnd),
            b'}' => self.close_flow(TokenKind::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.block_entry(),
            b'?' if in_flow || self.is_blank_or_end(1) => self.key(),
            b':' if in_flow || self.is_blank_or_end(1) => self.value(),
            b'*' => self.named(TokenKind::Alias),
            b'&' => self.named(TokenKind::Anchor),
            b'!' => self.tag(),
            b'|' if !in_flow => self.block_scalar(Style::Literal),
            b'>' if !in_flow => self.block_scalar(Style::Folded),
            b'\'' => self.quoted(Style::SingleQuoted),
            b'"' => self.quoted(Style::DoubleQuoted),
            b'-' | b'?' | b':' if !in_flow || byte == b'-' => self.plain(),
            b'?' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.error("found character that cannot start any token"))
            }
            _ => self.plain(),
        }
    }

    /// Closes all open collections at the end of the document or of its
    /// directives.
    fn end_document_part(&mut self) -> Result<(), Error> {
        self.close_blocks(None);
        self.forget_key()?;
        self.is_key_allowed = false;
        Ok(())
    }

    fn end_stream(&mut self) -> Result<(), Error> {
        // go-yaml counts the end as the start of a new line in error texts.
        if self.at != self.line_start {
            self.line += 1;
            self.line_start = self.at;
        }
        self.end_document_part()?;
        self.indicator(TokenKind::StreamEnd, 0);
        Ok(())
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            self.skip_mark();
            self.skip_separation();
            let byte = self.byte(0);
            if byte == b'#' {
                self.skip_line_rest();
            } else if class::of(byte) & (BREAK | WIDE) == 0 {
                return;
            }
            if !self.skip_break() {
                return;
            }
            if self.flow_depth == 0 {
                self.is_key_allowed = true;
            }
        }
    }

    /// Skips a second byte order mark as go-yaml does. go-yaml also loses the
    /// first character of each later line, because it looks for the mark at the
    /// wrong offset.
    fn skip_mark(&mut self) {
        if self.loses_characters && self.at == self.line_start && self.at < self.input.len() {
            let rest = self.rest();
            let width = rest.iter().skip(1).take_while(|&byte| byte & 0xC0 == 0x80).count() + 1;
            self.at += width;
            // The skipped character counts as one column.
            self.line_start = self.at - 1;
        }
    }

    /// Number of characters before the end, at most [`LOOKAHEAD`].
    fn characters_left(&self) -> usize {
        let rest = self.rest();
        if rest.len() >= 4 * LOOKAHEAD {
            return LOOKAHEAD;
        }
        rest.iter().filter(|&byte| byte & 0xC0 != 0x80).count()
    }

    /// Skips spaces. Skips tabs too, except where they would be indentation.
    fn skip_separation(&mut self) {
        loop {
            self.at += class::spaces(self.rest());
            if self.byte(0) != b'\t' || self.flow_depth == 0 && self.is_key_allowed {
                return;
            }
            self.at += 1;
        }
    }

    /// Queues a token of `width` bytes without text.
    fn indicator(&mut self, kind: TokenKind, width: usize) {
        let place = self.place();
        self.at += width;
        self.queue.push(Token::new(kind, place, self.at, Text::EMPTY));
    }

    /// Queues a token that started at `place` and ends here.
    fn push(&mut self, kind: TokenKind, place: Place, text: Text) {
        self.queue.push(Token::new(kind, place, self.at, text));
    }

    fn error(&self, problem: &str) -> Error {
        Error::scanner(problem, self.place())
    }

    fn place(&self) -> Place {
        Place::new(self.at, self.line)
    }

    /// Bytes since the start of the line. Columns are compared only between
    /// tokens that have only ASCII before them on the line.
    fn column(&self) -> usize {
        self.at - self.line_start
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.at.min(self.input.len())..]
    }

    /// The byte at this distance. At the end it is NUL, which no document may
    /// contain.
    #[inline]
    fn byte(&self, ahead: usize) -> u8 {
        self.input.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_blank_or_end(&self, ahead: usize) -> bool {
        let byte = self.byte(ahead);
        class::of(byte) & (BLANK | BREAK) != 0
            || self.at + ahead >= self.input.len()
            || byte >= 0x80 && break_len(&self.input[self.at + ahead..]) > 0
    }

    /// `---` or `...` starts the line here.
    fn is_document_marker(&self) -> bool {
        self.at == self.line_start
            && matches!(self.rest(), [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..])
            && self.is_blank_or_end(3)
    }

    /// Skips up to the next line break.
    fn skip_line_rest(&mut self) {
        let rest = self.rest();
        if self.wide == 0 {
            self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            return;
        }
        let mut rest = rest;
        while break_len(rest) == 0
            && let [_, next @ ..] = rest
        {
            rest = next;
        }
        self.at = self.input.len() - rest.len();
    }

    /// Skips one line break, if there is one.
    fn skip_break(&mut self) -> bool {
        let width = break_len(self.rest());
        if width == 0 {
            return false;
        }
        self.at += width;
        self.line += 1;
        self.line_start = self.at;
        true
    }

    /// Skips one line break and appends it to the scratch buffer. LS and PS
    /// stay as they are; every other break becomes LF.
    fn take_break(&mut self) -> bool {
        let bytes = self.rest();
        match break_len(bytes) {
            0 => {}
            3 => self.scratch.extend_from_slice(&bytes[..3]),
            _ => self.scratch.push(b'\n'),
        }
        self.skip_break()
    }
}
