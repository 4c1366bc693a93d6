//! A plugin's whole output: which documents it holds, and what they become.
//!
//! The rules are those of Argo CD 3.1 and later, where output that starts
//! like JSON may go on as YAML. Documents are found before they are read:
//! `---` at the start of a line separates, whatever is around it.

mod chunks;
mod error;
mod syntax;

use std::ops::Range;

use bytes::Bytes;

pub use self::error::{Error, MAX_EXCERPT_BYTES};
use self::{
    chunks::{Chunk, Chunks},
    error::{Cause, Position},
    syntax::Syntax,
};
use super::Converter;

/// Collections within one another that Go's JSON decoder reads.
const MAX_JSON_DEPTH: usize = 10_000;

/// How far into the output upstream looks for the `{` of JSON.
const GUESS_BYTES: usize = 4096;

/// Bytes that upstream wants to see before it gives JSON up for YAML.
const FALLBACK_BYTES: usize = 4;

/// The manifests in a command's output, less one line break at its end, as
/// Argo CD takes it. They have at most `max_bytes` bytes together.
pub fn stdout_manifests(stdout: &Bytes, max_bytes: usize) -> Result<Vec<Bytes>, Error> {
    let end = stdout.len() - usize::from(stdout.ends_with(b"\n"));
    Reader::new(stdout, end, max_bytes).read()
}

/// The manifests in an output. JSON stays as it is and shares its memory;
/// everything else becomes compact JSON of at most `max_bytes` bytes.
pub fn manifests(output: &Bytes, max_bytes: usize) -> Result<Vec<Bytes>, Error> {
    Reader::new(output, output.len(), max_bytes).read()
}

/// Where a manifest's text is.
enum Manifest {
    Output(Range<usize>),
    Converted(Range<usize>),
}

struct Reader<'a> {
    /// May be longer than what counts.
    output: &'a Bytes,
    /// The part that counts.
    text: &'a [u8],
    manifests: Vec<Manifest>,
    converted: Vec<u8>,
    converter: Converter,
    /// Documents read, nulls included.
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
                // More than one value, and it was meant as JSON.
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

    /// Reads YAML from `start` on. Trouble with the first document is put
    /// down to the reason why it is not JSON.
    fn read_yaml(&mut self, start: usize, reason: Option<Error>) -> Result<(), Error> {
        let mut reason = reason;
        let chunks = Chunks::new(self.output, start, self.text.len());
        for chunk in chunks {
            self.documents += 1;
            let converted = match chunk {
                Ok(chunk) => self.convert(&chunk),
                Err(separator) => {
                    Err(self.error(Cause::Separator(separator.text), separator.offset))
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
            return Err(self.error(Cause::Depth(bracket), chunk.start));
        }
        if json == b"null" {
            self.converted.truncate(start);
        } else {
            self.manifests.push(Manifest::Converted(start..self.converted.len()));
        }
        Ok(())
    }

    /// What is missing at a document's end is missing on its last line.
    fn yaml_error(&self, error: super::Error, chunk: &Chunk<'_>) -> Error {
        let last = chunk.text.trim_ascii_end().len();
        let offset = error.offset().unwrap_or(0).min(last);
        self.error(Cause::Yaml(error), chunk.start + offset)
    }

    fn json_error(&self, fault: &Syntax, is_first: bool) -> Error {
        let offset = match fault {
            Syntax::Invalid { offset, .. } => *offset,
            Syntax::UnexpectedEnd => self.text.len(),
        };
        self.error(Cause::Json { text: fault.text(is_first) }, offset)
    }

    fn error(&self, cause: Cause, offset: usize) -> Error {
        Error::new(cause, Position { document: self.documents.max(1), text: self.text, offset })
    }
}

/// Whether the first character that is not white space is `{`.
fn starts_like_json(text: &[u8]) -> bool {
    let mut rest = &text[..text.len().min(GUESS_BYTES)];
    while let Some(width) = space_len(rest) {
        rest = &rest[width..];
    }
    rest.starts_with(b"{")
}

/// Skips white space up to and including the first line break. `None` if that
/// comes too close to the end for upstream.
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

/// Bytes of the white space character that `text` starts with, in Unicode's
/// terms.
fn space_len(text: &[u8]) -> Option<usize> {
    let character = if let [byte @ ..0x80, ..] = text {
        char::from(*byte)
    } else {
        let start = &text[..text.len().min(4)];
        start.utf8_chunks().next()?.valid().chars().next()?
    };
    character.is_whitespace().then(|| character.len_utf8())
}
