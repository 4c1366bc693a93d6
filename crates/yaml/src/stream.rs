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

use bytes::Bytes;

pub use self::error::{Error, MAX_EXCERPT_BYTES};
use self::{
    chunks::{Chunk, Chunks},
    error::{Position, Problem},
    syntax::Syntax,
};
use super::Converter;

/// Deepest nesting that Go's JSON decoder accepts.
const MAX_JSON_DEPTH: usize = 10_000;

/// Number of leading bytes in which Argo CD looks for the `{` of JSON.
const GUESS_BYTES: usize = 4096;

/// Number of bytes that must follow before Argo CD reads YAML instead of JSON.
const FALLBACK_BYTES: usize = 4;

/// The manifests in a command's standard output. As in Argo CD, one line break
/// at the end is dropped. The converted manifests together have at most
/// `max_bytes` bytes.
pub fn stdout_manifests(stdout: &Bytes, max_bytes: usize) -> Result<Vec<Bytes>, Error> {
    let end = stdout.len() - usize::from(stdout.ends_with(b"\n"));
    Reader::new(stdout, end, max_bytes).read()
}

/// The manifests in an output. JSON values stay as they are and share the
/// memory of `output`. Everything else becomes compact JSON of at most
/// `max_bytes` bytes in all. Empty documents and `null` are left out.
pub fn manifests(output: &Bytes, max_bytes: usize) -> Result<Vec<Bytes>, Error> {
    Reader::new(output, output.len(), max_bytes).read()
}

/// The range of a manifest's text.
enum Manifest {
    Output(Range<usize>),
    Converted(Range<usize>),
}

struct Reader<'a> {
    /// The output. It may have a line break after `text`.
    output: &'a Bytes,
    /// The part of the output that is read.
    text: &'a [u8],
    manifests: Vec<Manifest>,
    converted: Vec<u8>,
    converter: Converter,
    /// Number of documents read, nulls included.
    documents: usize,
}

impl<'a> Reader<'a> {
    fn new(output: &'a Bytes, end: usize, max_bytes: usize) -> Self {
        let text = &output[..end];
        let converter = Converter::new(max_bytes);
        Self { output, text, manifests: Vec::new(), converted: Vec::new(), converter, documents: 0 }
    }

    fn read(mut self) -> Result<Vec<Bytes>, Error> {
        if starts_like_json(self.text) {
            self.read_json()?;
        } else {
            self.read_yaml(0, None)?;
        }
        let Self { output, manifests, converted, .. } = self;
        let converted = Bytes::from(converted);
        let slice = |manifest| match manifest {
            Manifest::Output(range) => output.slice(range),
            Manifest::Converted(range) => converted.slice(range),
        };
        Ok(manifests.into_iter().map(slice).collect())
    }

    fn read_json(&mut self) -> Result<(), Error> {
        let mut at = 0;
        loop {
            match syntax::value(self.text, at) {
                Ok(None) => return Ok(()),
                Ok(Some(range)) => {
                    at = range.end;
                    self.documents += 1;
                    if &self.text[range.clone()] != b"null" {
                        self.manifests.push(Manifest::Output(range));
                    }
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
                return Err(reason.unwrap_or(error));
            }
            reason = None;
        }
        Ok(())
    }

    fn convert(&mut self, chunk: &Chunk<'_>) -> Result<(), Error> {
        let start = self.converted.len();
        let facts = self
            .converter
            .append(&chunk.text, &mut self.converted)
            .map_err(|error| self.yaml_error(error, chunk))?;
        let json = &self.converted[start..];
        if facts.depth > MAX_JSON_DEPTH {
            let bracket = syntax::too_deep(json);
            return Err(self.error(Problem::Depth(bracket), chunk.start));
        }
        if json == b"null" {
            self.converted.truncate(start);
        } else {
            self.manifests.push(Manifest::Converted(start..self.converted.len()));
        }
        Ok(())
    }

    /// Reports an error at the end of a document on the document's last line.
    fn yaml_error(&self, error: super::Error, chunk: &Chunk<'_>) -> Error {
        let last = chunk.text.trim_ascii_end().len();
        let offset = error.offset().unwrap_or(0).min(last);
        self.error(Problem::Yaml(error), chunk.start + offset)
    }

    fn json_error(&self, fault: &Syntax, is_first: bool) -> Error {
        let offset = match fault {
            Syntax::Invalid { offset, .. } => *offset,
            Syntax::UnexpectedEnd => self.text.len(),
        };
        self.error(Problem::Json { text: fault.text(is_first) }, offset)
    }

    fn error(&self, problem: Problem, offset: usize) -> Error {
        Error::new(problem, Position { document: self.documents.max(1), text: self.text, offset })
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
