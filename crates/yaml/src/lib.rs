#![doc = include_str!("../README.md")]
//!
//! # Usage
//!
//! A command's output, as Argo CD splits and converts it:
//!
//! ```
//! use cmp_yaml::stream::{self, Receiver};
//!
//! struct Count(usize);
//!
//! impl Receiver for Count {
//!     fn manifest(&mut self, _text: &mut Vec<u8>, _start: usize) -> bool {
//!         self.0 += 1;
//!         true
//!     }
//!
//!     fn goes_on(&mut self, _memory: usize) -> bool {
//!         true
//!     }
//! }
//!
//! let output = b"kind: Service\n---\nkind: Deployment\n";
//! let (mut text, mut count) = (Vec::new(), Count(0));
//! stream::read_stdout(output, 1 << 20, &mut text, &mut count)?;
//! assert_eq!(text, br#"{"kind":"Service"}{"kind":"Deployment"}"#);
//! assert_eq!(count.0, 2);
//! # Ok::<(), stream::Error>(())
//! ```
//!
//! The nodes of a document with their positions:
//!
//! ```
//! let tree = cmp_yaml::tree(b"spec:\n  version: v1\n")?.expect("a document");
//! let version = tree.root().get("spec").and_then(|spec| spec.get("version"));
//! assert_eq!(version.map(|node| node.range()), Some(17..19));
//! # Ok::<(), cmp_yaml::Error>(())
//! ```
//!
//! Errors have Argo CD's text, the kind of the error, and the right line:
//!
//! ```
//! use cmp_yaml::Cause;
//!
//! let error = cmp_yaml::to_json(b"a: 1\nb: *missing\n").unwrap_err();
//! assert_eq!(error.to_string(), "yaml: unknown anchor 'missing' referenced");
//! assert_eq!((error.cause(), error.line()), (Cause::Value, Some(2)));
//! ```
//!
//! # Limits
//!
//! | limit | value | error |
//! |---|---|---|
//! | input | [`MAX_DOCUMENT_BYTES`] | [`Cause::Limit`] |
//! | JSON | the caller's, at most 512 MiB; [`DEFAULT_MAX_OUTPUT_BYTES`] for [`to_json`] | [`Cause::Limit`] |
//! | nesting | 10,000, as in go-yaml | [`Cause::Complexity`] |
//! | nodes of a tree | [`tree::MAX_NODES`] | [`Cause::Limit`] |
//! | `%TAG` directives | 10,000 | [`Cause::Syntax`] |
//! | aliases | a share of all nodes, as in go-yaml | [`Cause::Complexity`] |
//!
//! # Design
//!
//! ```text
//! bytes ─ reader ─▶ characters ─ scanner ─▶ tokens ─ parser ─▶ events ─┬─▶ json   (manifests)
//!                                                                      └─▶ tree   (diagnostics)
//! ```
//!
//! Read the modules in this order: `token` and `event` (the data between the
//! stages), `reader`, `scanner`, `parser`, `scalar` (types of values), `json`,
//! then `stream`, which splits a command's output into documents. Nesting
//! never uses the stack.

#![forbid(unsafe_code)]

mod class;
mod error;
mod event;
mod float;
mod go;
mod go_on;
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

use std::{borrow::Cow, mem};

pub use self::{
    error::{Cause, Error},
    go_on::GoOn,
    offset::MAX_DOCUMENT_BYTES,
    token::Style,
    tree::Tree,
};
use self::{
    go::BadKey,
    go_on::always,
    json::{UNENCODABLE, WriteError, Writer, Written},
    parser::Parser,
    place::Place,
    reader::Source,
};

/// Limit of [`to_json`] for one document's JSON, in bytes. Argo CD's
/// repo-server accepts no larger message by default.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 100 << 20;

/// Converts the first document to JSON. Documents after it are not read. An
/// input without a document becomes `null`.
///
/// The JSON has at most [`DEFAULT_MAX_OUTPUT_BYTES`] bytes, and the input at
/// most [`MAX_DOCUMENT_BYTES`]. Exceeding either is an [`Error`] with
/// [`Cause::Limit`].
pub fn to_json(document: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Converter::new(DEFAULT_MAX_OUTPUT_BYTES).convert(document, &mut out)?;
    Ok(out)
}

/// The text as UTF-8. UTF-16 with a byte order mark is decoded. Text that is
/// not valid UTF-16 is returned unchanged.
#[must_use]
pub fn utf8(text: &[u8]) -> Cow<'_, [u8]> {
    reader::utf8(text)
}

/// The nodes of the first document with their positions, or `None` if there is
/// no document.
pub fn tree(document: &[u8]) -> Result<Option<Tree<'_>>, Error> {
    Tree::new(document)
}

/// Converts documents and reuses its buffers between them.
#[derive(Debug)]
pub struct Converter {
    parser: parser::Buffers,
    writer: Writer,
}

impl Converter {
    /// A converter that refuses documents whose JSON has more than `max_bytes`
    /// bytes. The bound includes the bytes already in `out`. Merges are counted
    /// by an upper bound of their size. Values above 512 MiB count as 512 MiB.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { parser: parser::Buffers::default(), writer: Writer::new(max_bytes) }
    }

    /// Appends the JSON of the first document to `out`. After an error, `out`
    /// may contain a part of it.
    pub fn convert(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.append(document, out, &mut always).map(|_| ())
    }

    fn append(
        &mut self,
        document: &[u8],
        out: &mut Vec<u8>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Written, Error> {
        let source = Source::new(document)?;
        let written = self.write((document, &source), out, go_on);
        written.map_err(|error| error.after(source.skipped))
    }

    fn write(
        &mut self,
        (document, source): (&[u8], &Source<'_>),
        out: &mut Vec<u8>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Written, Error> {
        let start = out.len();
        let mut parser = Parser::new(source, mem::take(&mut self.parser));
        let read = self.writer.read(&mut parser, start, go_on);
        // Frees the buffer of a huge scalar before the text is assembled.
        self.parser = parser.into_buffers();
        let facts = match read.and_then(|()| self.writer.finish(out, go_on)) {
            Ok(facts) => facts,
            Err(WriteError::Error(error)) => return Err(error),
            Err(WriteError::Key(place)) => {
                let key = go::collection_key(document, place.offset()).unwrap_or_default();
                return Err(Error::quoting(["invalid map key: ", ""], &key, place));
            }
        };
        if let Some(first) = facts.unencodable {
            check_unencodable(document, &out[start..], first)?;
        }
        Ok(facts)
    }
}

/// Returns an error if `json` contains a value that JSON cannot express. A
/// replaced or unused value does no harm. `first` is the place of the first one.
fn check_unencodable(document: &[u8], json: &[u8], first: Place) -> Result<(), Error> {
    let rest_at = |at: usize| json.get(at + 1..).unwrap_or_default();
    let mut found = memchr::memchr_iter(UNENCODABLE, json).map(rest_at);
    if let Some(key) = found.clone().find_map(|rest| rest.strip_prefix(b"k")) {
        let BadKey { kind, entry, place } = go::bad_key(document)
            .unwrap_or_else(|| BadKey::not_shown(key.starts_with(b"null"), first));
        return Err(Error::key(kind, &entry, place));
    }
    let Some(rest) = found.next() else {
        return Ok(());
    };
    let name = ["+Inf", "-Inf"].into_iter().find(|name| rest.starts_with(name.as_bytes()));
    Err(Error::json(format!("json: unsupported value: {}", name.unwrap_or("NaN")), first))
}
