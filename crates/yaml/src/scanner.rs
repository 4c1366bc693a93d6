//! From characters to tokens.
//!
//! YAML tells a mapping's key only by the `:` behind it, so tokens wait in a
//! queue while the first of them may still turn out to start one.

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
    class::{self, BLANK, BREAK, break_len},
    error::Error,
    place::Place,
    reader::Source,
    token::{Kind, Style, Text, Token},
};

/// How many flow collections, and how many block collections, may stand
/// within one another. The same as upstream's.
pub(super) const MAX_DEPTH: usize = 10_000;

/// How many characters upstream wants to see before it decides on a token.
const LOOKAHEAD: usize = 4;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads tokens off a document.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    input: &'a [u8],
    /// Awaits whoever reads to the end of `input`.
    fault: Option<&'a Error>,
    at: usize,
    line: usize,
    line_start: usize,
    queue: Queue,
    /// Collections in brackets that are open.
    flow_depth: usize,
    /// Column of the innermost block collection.
    indent: Option<usize>,
    /// Columns of the block collections around it.
    indents: Vec<Option<usize>>,
    keys: Keys,
    /// Whether a key may start at the next token.
    is_key_allowed: bool,
    scratch: Vec<u8>,
    /// Within the token at hand upstream wants to see as much as before it.
    looks_ahead: bool,
    /// A byte order mark stands where upstream looks for one.
    loses_characters: bool,
    /// `WIDE` if there are line breaks other than LF.
    wide: u8,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of a document.
    pub(super) fn new(source: &'a Source<'_>) -> Self {
        Self {
            input: &source.text,
            fault: source.fault.as_ref(),
            at: 0,
            line: 0,
            line_start: 0,
            queue: Queue::default(),
            flow_depth: 0,
            indent: None,
            indents: Vec::new(),
            keys: Keys::default(),
            is_key_allowed: true,
            scratch: Vec::new(),
            looks_ahead: false,
            loses_characters: source.text.starts_with(BYTE_ORDER_MARK),
            wide: if source.has_rare_breaks { class::WIDE } else { 0 },
        }
    }

    /// The next token, which stays next.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Token, Error> {
        if let Some(token) = self.queue.first()
            && !self.keys.is_waiting()
        {
            return Ok(token);
        }
        self.fill()
    }

    /// Takes the token that `peek` showed.
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

    /// Scans until the first token of the queue cannot become a key any more.
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
                let kind = if byte == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd };
                self.indicator(kind, 3);
                Ok(())
            }
            _ => self.fetch_by_indicator(byte),
        }
    }

    fn fetch_by_indicator(&mut self, byte: u8) -> Result<(), Error> {
        let in_flow = self.flow_depth > 0;
        match byte {
            b'[' => self.open_flow(Kind::FlowSequenceStart),
            b'{' => self.open_flow(Kind::FlowMappingStart),
            b']' => self.close_flow(Kind::FlowSequenceEnd),
            b'}' => self.close_flow(Kind::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.block_entry(),
            b'?' if in_flow || self.is_blank_or_end(1) => self.key(),
            b':' if in_flow || self.is_blank_or_end(1) => self.value(),
            b'*' => self.named(Kind::Alias),
            b'&' => self.named(Kind::Anchor),
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

    /// Everything open ends with the document, or with its directives.
    fn end_document_part(&mut self) -> Result<(), Error> {
        self.close_blocks(None);
        self.forget_key()?;
        self.is_key_allowed = false;
        Ok(())
    }

    fn end_stream(&mut self) -> Result<(), Error> {
        // The end counts as the start of a line, which error texts show.
        if self.at != self.line_start {
            self.line += 1;
            self.line_start = self.at;
        }
        self.end_document_part()?;
        self.indicator(Kind::StreamEnd, 0);
        Ok(())
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            self.skip_mark();
            self.skip_separation();
            if self.byte(0) == b'#' {
                self.skip_line_rest();
            }
            if !self.skip_break() {
                return;
            }
            if self.flow_depth == 0 {
                self.is_key_allowed = true;
            }
        }
    }

    /// Upstream skips a second byte order mark, and as it looks for one in
    /// the wrong place, also the first character of each line below it.
    fn skip_mark(&mut self) {
        if self.loses_characters && self.at == self.line_start && self.at < self.input.len() {
            let rest = self.rest();
            let width = rest.iter().skip(1).take_while(|&byte| byte & 0xC0 == 0x80).count() + 1;
            self.at += width;
            // One column wide.
            self.line_start = self.at - 1;
        }
    }

    /// Characters up to the end, as far as anybody looks ahead.
    fn characters_left(&self) -> usize {
        let rest = self.rest();
        if rest.len() >= 4 * LOOKAHEAD {
            return LOOKAHEAD;
        }
        rest.iter().filter(|&byte| byte & 0xC0 != 0x80).count()
    }

    /// Skips spaces, and tabs where they do not indent.
    fn skip_separation(&mut self) {
        loop {
            let rest = self.rest();
            let spaces = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
            self.at += spaces;
            if self.byte(0) != b'\t' || self.flow_depth == 0 && self.is_key_allowed {
                return;
            }
            self.at += 1;
        }
    }

    /// Queues a token of `width` bytes without text of its own.
    fn indicator(&mut self, kind: Kind, width: usize) {
        let place = self.place();
        self.at += width;
        self.queue.push(Token::new(kind, place, self.at, Text::EMPTY));
    }

    /// Queues a token that started at `place` and ends here.
    fn push(&mut self, kind: Kind, place: Place, text: Text) {
        self.queue.push(Token::new(kind, place, self.at, text));
    }

    fn error(&self, problem: &str) -> Error {
        Error::scanner(problem, self.place())
    }

    fn place(&self) -> Place {
        Place::new(self.at, self.line)
    }

    /// Bytes since the line's start. Columns are compared only between tokens
    /// that have nothing but ASCII before them on their lines.
    fn column(&self) -> usize {
        self.at - self.line_start
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.at.min(self.input.len())..]
    }

    /// A byte from here on; NUL, which no document may contain, at the end.
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

    /// Whether `---` or `...` starts the line here.
    fn is_document_marker(&self) -> bool {
        self.at == self.line_start
            && matches!(self.rest(), [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..])
            && self.is_blank_or_end(3)
    }

    /// Skips everything before the next line break.
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

    /// Skips one line break and adds it to the scratch; all of them mean LF,
    /// but LS and PS, which stay what they are.
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
