//! The whole output of a command: YAML documents or JSON values to manifests.
//!
//! The rules are those of Argo CD 3.1 and later, which can continue with YAML
//! after output that starts like JSON. Documents are separated before they are
//! parsed: `---` at the start of a line separates them, even inside a scalar.
//!
//! Read `stream.rs` first, then `chunks` (separators), `syntax` (JSON) and
//! `error`.

mod chunks;
mod error;
mod syntax;

use std::ops::Range;

use self::{
    chunks::{Chunk, Chunks},
    error::{Position, Problem},
    syntax::Syntax,
};
pub use self::{
    error::{Error, MAX_EXCERPT_BYTES},
    syntax::check_json,
};
use super::Converter;

/// Deepest nesting that Go's JSON decoder accepts.
const MAX_JSON_DEPTH: usize = 10_000;

/// Number of leading bytes in which Argo CD looks for the `{` of JSON.
const GUESS_BYTES: usize = 4096;

/// Number of JSON values, or length of one, after which the receiver is asked.
const VALUES: usize = 4096;

/// Number of bytes that must follow before Argo CD reads YAML instead of JSON.
const FALLBACK_BYTES: usize = 4;

/// Takes the manifests of an output while they are read.
pub trait Receiver {
    /// The text from `start` on is a complete manifest. It may be changed, and
    /// its new length counts. Returns whether to go on.
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool;

    /// Asked at intervals whether to go on; see [`GoOn`](crate::GoOn).
    fn goes_on(&mut self, memory: usize) -> bool;
}

/// Appends the manifests in a command's standard output to `text`. As in Argo
/// CD, one line break at the end is dropped.
///
/// JSON values stay as they are. Everything else becomes compact JSON, and
/// `text` has at most `max_bytes` bytes then. Empty documents and `null` are
/// left out. After an error, `text` may contain a part of the manifests.
pub fn read_stdout(
    stdout: &[u8],
    max_bytes: usize,
    text: &mut Vec<u8>,
    receiver: &mut dyn Receiver,
) -> Result<(), Error> {
    let end = stdout.len() - usize::from(stdout.ends_with(b"\n"));
    Reader::new((stdout, end), max_bytes, text, receiver).read()
}

/// Finds two parts of a command's standard output whose manifests, one after the other,
/// are those of the whole. They are as similar in length as its documents allow, and
/// [`read_part`] reads them.
///
/// `None` if no separator is near the middle, or if the output starts like JSON, whose
/// values are not separated.
#[must_use]
pub fn halves(stdout: &[u8]) -> Option<[Range<usize>; 2]> {
    if starts_like_json(stdout) {
        return None;
    }
    let end = stdout.len() - usize::from(stdout.ends_with(b"\n"));
    let separator = chunks::separator_near_middle(&stdout[..end])?;
    Some([0..separator.start, separator.end..end])
}

/// Appends the manifests in a part of a command's standard output, as [`read_stdout`]
/// does. Numbers of documents in errors begin with the part.
pub fn read_part(
    (stdout, part): (&[u8], Range<usize>),
    max_bytes: usize,
    text: &mut Vec<u8>,
    receiver: &mut dyn Receiver,
) -> Result<(), Error> {
    Reader::new((stdout, part.end), max_bytes, text, receiver).read_yaml(part.start, None)
}

struct Reader<'a> {
    /// The output. It may have a line break after `text`.
    output: &'a [u8],
    /// The part of the output that is read.
    text: &'a [u8],
    manifests: &'a mut Vec<u8>,
    receiver: &'a mut dyn Receiver,
    converter: Converter,
    /// Number of documents read, nulls included.
    documents: usize,
}

impl<'a> Reader<'a> {
    fn new(
        (output, end): (&'a [u8], usize),
        max_bytes: usize,
        manifests: &'a mut Vec<u8>,
        receiver: &'a mut dyn Receiver,
    ) -> Self {
        let text = &output[..end];
        let converter = Converter::new(max_bytes);
        Self { output, text, manifests, receiver, converter, documents: 0 }
    }

    fn read(&mut self) -> Result<(), Error> {
        if starts_like_json(self.text) { self.read_json() } else { self.read_yaml(0, None) }
    }

    fn read_json(&mut self) -> Result<(), Error> {
        let mut at = 0;
        loop {
            match syntax::value(self.text, at) {
                Ok(None) => return Ok(()),
                Ok(Some(range)) => {
                    at = range.end;
                    self.documents += 1;
                    self.take(range)?;
                }
                // At least one value was valid JSON, so the rest is not read as
                // YAML.
                Err(fault) if self.documents > 1 => return Err(self.json_error(&fault, false)),
                Err(fault) => {
                    let error = self.json_error(&fault, true);
                    let Some(at) = skip_line(self.text, at) else {
                        return Err(error);
                    };
                    return self.read_yaml(at, Some(error));
                }
            }
        }
    }

    /// Appends a JSON value of the output, unless it is `null`.
    fn take(&mut self, range: Range<usize>) -> Result<(), Error> {
        let (value, start) = (&self.text[range], self.manifests.len());
        let is_due = value.len() >= VALUES || self.documents.is_multiple_of(VALUES);
        if is_due && !self.receiver.goes_on(start + value.len()) {
            return Err(self.stopped());
        }
        if value == b"null" {
            return Ok(());
        }
        self.manifests.extend_from_slice(value);
        self.give(start)
    }

    /// Gives the receiver the manifest that begins at `start`.
    fn give(&mut self, start: usize) -> Result<(), Error> {
        let goes_on = self.receiver.manifest(self.manifests, start);
        if goes_on { Ok(()) } else { Err(self.stopped()) }
    }

    fn stopped(&self) -> Error {
        self.yaml_error(super::Error::stopped(), 0..0)
    }

    /// Reads YAML from `start` on. An error in the first document is reported
    /// as `reason`, the reason why the output is not JSON.
    fn read_yaml(&mut self, start: usize, reason: Option<Error>) -> Result<(), Error> {
        let mut reason = reason;
        let chunks = Chunks::new(self.output, start, self.text.len());
        for chunk in chunks {
            self.documents += 1;
            let converted = match chunk {
                Ok(chunk) => self.convert(&chunk),
                Err(separator) => {
                    Err(self.error(Problem::Separator(separator.text), separator.offset))
                }
            };
            if let Err(error) = converted {
                return Err(reason.filter(|_| !error.is_stopped()).unwrap_or(error));
            }
            reason = None;
        }
        Ok(())
    }

    fn convert(&mut self, chunk: &Chunk<'_>) -> Result<(), Error> {
        let start = self.manifests.len();
        let mut go_on = |memory| self.receiver.goes_on(memory);
        let facts = self.converter.append(&chunk.text, self.manifests, &mut go_on);
        let last = chunk.text.trim_ascii_end().len();
        let range = chunk.start..chunk.start + last;
        let facts = facts.map_err(|error| self.yaml_error(error, range))?;
        let json = &self.manifests[start..];
        if facts.depth > MAX_JSON_DEPTH {
            let bracket = syntax::too_deep(json);
            return Err(self.error(Problem::Depth(bracket), chunk.start).without_place());
        }
        if json == b"null" {
            self.manifests.truncate(start);
            return Ok(());
        }
        self.give(start)
    }

    /// Reports an error at the end of a document on the last line of its text,
    /// which is at `range`.
    fn yaml_error(&self, error: super::Error, range: Range<usize>) -> Error {
        match error.offset() {
            Some(offset) => self.error(Problem::Yaml(error), range.start + offset.min(range.len())),
            None => self.error(Problem::Yaml(error), range.start).without_place(),
        }
    }

    fn json_error(&self, fault: &Syntax, is_first: bool) -> Error {
        let offset = match fault {
            Syntax::Invalid { offset, .. } => *offset,
            Syntax::UnexpectedEnd { .. } => self.text.len(),
        };
        // A value counts once it is read.
        let document = self.documents + 1;
        let problem = Problem::Json { text: fault.text(is_first) };
        Error::new(problem, Position { document, text: self.text, offset })
    }

    fn error(&self, problem: Problem, offset: usize) -> Error {
        Error::new(problem, Position { document: self.documents, text: self.text, offset })
    }
}

/// The first character that is not white space is `{`.
fn starts_like_json(text: &[u8]) -> bool {
    let mut rest = &text[..text.len().min(GUESS_BYTES)];
    while let Some(width) = space_len(rest) {
        rest = &rest[width..];
    }
    rest.starts_with(b"{")
}

/// Skips white space up to the first line break, included. `None` if fewer than
/// [`FALLBACK_BYTES`] bytes follow.
fn skip_line(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        let rest = &text[at..];
        if rest.len() < FALLBACK_BYTES {
            return None;
        }
        let Some(width) = space_len(rest) else {
            return Some(at);
        };
        at += width;
        if rest.starts_with(b"\n") {
            return Some(at);
        }
    }
}

/// Length in bytes of the white space character at the start of `text`. White
/// space is Unicode's.
fn space_len(text: &[u8]) -> Option<usize> {
    let character = if let [byte @ ..0x80, ..] = text {
        char::from(*byte)
    } else {
        let start = &text[..text.len().min(4)];
        start.utf8_chunks().next()?.valid().chars().next()?
    };
    character.is_whitespace().then(|| character.len_utf8())
}
