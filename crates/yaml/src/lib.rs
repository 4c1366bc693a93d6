#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! ```text
//! bytes ─ reader ─▶ characters ─ scanner ─▶ tokens ─ parser ─▶ events ─┬─▶ json   (manifests)
//!                                                                      └─▶ tree   (diagnostics)
//! ```
//!
//! Depth never costs stack, and work and memory are linear in the bytes read
//! and written.

#![forbid(unsafe_code)]

mod class;
mod error;
mod event;
mod float;
mod go;
mod json;
mod offset;
mod parser;
mod place;
pub mod portable;
mod reader;
mod scalar;
mod scanner;
pub mod stream;
mod token;
pub mod tree;

use std::borrow::Cow;

pub use self::{
    error::{Cause, Error},
    offset::MAX_DOCUMENT_BYTES,
    place::{Mark, Span},
    token::Style,
    tree::Tree,
};
use self::{
    json::{Facts, POISON, Refusal, Writer},
    parser::Parser,
    reader::Source,
};

/// How many bytes of JSON one document may become, unless the caller says
/// otherwise. Argo CD's repo-server takes no larger message.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 100 << 20;

/// The JSON of the first document; whatever follows it is not read. No
/// document is `null`.
pub fn to_json(document: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Converter::new(DEFAULT_MAX_OUTPUT_BYTES).convert(document, &mut out)?;
    Ok(out)
}

/// A text in UTF-8, whose offsets are those of its bytes. UTF-16 with a byte
/// order mark is decoded, unless part of it is no text.
#[must_use]
pub fn utf8(text: &[u8]) -> Cow<'_, [u8]> {
    reader::utf8(text)
}

/// The first document's nodes, and where they stand.
pub fn tree(document: &[u8]) -> Result<Option<Tree<'_>>, Error> {
    Tree::new(document)
}

/// Converts one document after another with the same buffers.
#[derive(Debug)]
pub struct Converter {
    writer: Writer,
}

impl Converter {
    /// A converter that lets no buffer grow beyond `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { writer: Writer::new(max_bytes) }
    }

    /// Adds the JSON of the first document to `out`, which may hold half of
    /// it after an error.
    pub fn convert(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.append(document, out).map(|_| ())
    }

    fn append(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Facts, Error> {
        let start = out.len();
        let source = Source::new(document)?;
        let facts = match self.writer.write(Parser::new(&source), out) {
            Ok(facts) => facts,
            Err(Refusal::Error(error)) => return Err(error),
            Err(Refusal::Key(place)) => {
                let key = go::collection_key(document, place.offset()).unwrap_or_default();
                return Err(Error::value(&format!("invalid map key: {key}"), place));
            }
        };
        if facts.has_poison {
            check_poison(document, &out[start..])?;
        }
        Ok(facts)
    }
}

/// Whether the JSON is none, because of what is left in it.
fn check_poison(document: &[u8], json: &[u8]) -> Result<(), Error> {
    let poison = |at: usize| json.get(at + 1..).unwrap_or_default();
    let mut found = memchr::memchr_iter(POISON, json).map(poison);
    if found.clone().any(|rest| rest.starts_with(b"k")) {
        let (key, place) = go::bad_key(document).unzip();
        let key = key.unwrap_or_default();
        return Err(Error::json(format!("unsupported map key of type: {key}"), place));
    }
    let Some(rest) = found.next() else {
        return Ok(());
    };
    let name = ["+Inf", "-Inf"].into_iter().find(|name| rest.starts_with(name.as_bytes()));
    Err(Error::json(format!("json: unsupported value: {}", name.unwrap_or("NaN")), None))
}
