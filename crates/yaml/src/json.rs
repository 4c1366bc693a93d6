//! From events straight to the JSON that Go makes of a document.
//!
//! Values are written once, in the document's order. Where the result differs
//! from that order (unsorted or repeated keys, merges, aliases) a patch says
//! so, and the text is put together at the end: every byte moves at most
//! twice, however deep it lies.

mod alias;
mod base64;
mod entry;
mod frame;
mod key;
mod mapping;
mod merge;
mod patch;
mod text;

use std::collections::HashMap;

use self::{
    alias::{Anchor, Collection, Tally},
    entry::Entry,
    frame::{Frame, Slot},
    merge::{MergeList, Source},
    patch::Patch,
};
use super::{
    error::Error,
    event::{Event, Kind, Scalar, Tag},
    float,
    offset::Offset,
    parser::Parser,
    place::Place,
    scalar::{self, Value},
};

/// Stands where JSON has no form for a value; no UTF-8 text contains it.
pub(super) const POISON: u8 = 0xFF;

/// The most that any limit allows, so that offsets fit into 32 bits: a text of
/// this size grows at most six-fold before its size is checked.
pub(super) const MAX_OUTPUT_BYTES: usize = 512 << 20;

/// From this size on a text's final size is looked at before it is written.
const LONG_TEXT_BYTES: usize = 64 << 10;

/// Why there is no JSON.
#[derive(Debug)]
pub(super) enum Refusal {
    /// For this reason.
    Error(Error),
    /// The collection that starts here is a key.
    Key(Place),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Writes one document after another, and keeps its buffers meanwhile.
#[derive(Debug, Default)]
pub(super) struct Writer {
    limit: usize,
    raw: Vec<u8>,
    slot: Option<Slot>,
    frames: Vec<Frame>,
    entries: Vec<Entry>,
    patches: Vec<Patch>,
    /// Entries of patches, in their final order.
    pieces: Vec<Entry>,
    /// Mappings whose entries are to be merged.
    sources: Vec<Source>,
    /// An object's entries on the way to their places.
    moved: Vec<u8>,
    anchors: Vec<Anchor>,
    names: HashMap<Box<[u8]>, usize>,
    tally: Tally,
    /// How much longer `out` will be than `raw`, at most.
    growth: usize,
    height: usize,
    has_poison: bool,
    /// The first thing that cannot be had. Syntax errors further on win.
    refusal: Option<Refusal>,
}

/// What became of a document, besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Collections within one another.
    pub(super) depth: usize,
    /// Whether `POISON` stands in the text.
    pub(super) has_poison: bool,
}

impl Writer {
    /// A writer of texts that have at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.min(MAX_OUTPUT_BYTES), ..Self::default() }
    }

    /// Adds the JSON of the parser's document to `out`.
    pub(super) fn write(
        &mut self,
        mut parser: Parser<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Facts, Refusal> {
        self.clear();
        self.growth = out.len();
        self.read(&mut parser)?;
        // The scratch of a huge scalar must not outlive its use.
        drop(parser);
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
        if self.raw.is_empty() {
            self.raw.extend_from_slice(b"null");
        }
        self.assemble(out);
        Ok(Facts { depth: self.height, has_poison: self.has_poison })
    }

    fn clear(&mut self) {
        let limit = self.limit;
        let Self { raw, frames, entries, patches, pieces, sources, .. } = std::mem::take(self);
        *self = Self { limit, raw, frames, entries, patches, pieces, sources, ..Self::default() };
        self.raw.clear();
        self.frames.clear();
        self.entries.clear();
        self.patches.clear();
        self.pieces.clear();
        self.sources.clear();
    }

    fn read(&mut self, parser: &mut Parser<'_>) -> Result<(), Error> {
        loop {
            let event = parser.next_event()?;
            let anchor = self.open_anchor(parser, &event);
            match event.kind {
                Kind::Scalar(scalar) => {
                    let text = parser.text(scalar.text);
                    self.check_text(text)?;
                    self.scalar(&scalar, text, (event.place, anchor));
                }
                Kind::MappingStart => self.open_mapping(event.place, anchor),
                Kind::MappingEnd => self.close_mapping(),
                Kind::SequenceStart => self.open_sequence(event.place, anchor),
                Kind::SequenceEnd => self.close_sequence(),
                Kind::Alias(name) => self.alias(parser.text(name), event.place)?,
                Kind::DocumentStart => self.count(1, 0),
                Kind::DocumentEnd | Kind::StreamEnd => return Ok(()),
            }
            self.check_size()?;
        }
    }

    /// The document's text must fit, whatever it looks like in the end.
    fn check_size(&self) -> Result<(), Error> {
        // What is refused anyway may be repeated as often as it likes.
        let growth = if self.refusal.is_none() { self.growth } else { 0 };
        if self.raw.len().saturating_add(growth) <= self.limit {
            return Ok(());
        }
        Err(self.too_large())
    }

    /// A long text must fit before it is written.
    fn check_text(&self, text: &[u8]) -> Result<(), Error> {
        if text.len() < LONG_TEXT_BYTES {
            return Ok(());
        }
        let size = self.raw.len().saturating_add(text::escaped_len(text));
        if size <= self.limit { Ok(()) } else { Err(self.too_large()) }
    }

    fn too_large(&self) -> Error {
        Error::limit(format!("the output becomes more than {} bytes of JSON", self.limit))
    }

    fn scalar(&mut self, scalar: &Scalar, text: &[u8], (place, anchor): (Place, Option<usize>)) {
        let slot = self.slot();
        match slot {
            Slot::Key if scalar::is_merge(scalar, text) => {
                self.expect_merge();
                self.note_unread(text, anchor);
            }
            Slot::Merge | Slot::MergeItem => {
                self.refuse_merge(place);
                self.note_unread(text, anchor);
                self.done(slot);
            }
            Slot::Root | Slot::Item | Slot::Key | Slot::Value => {
                self.count(1, 0);
                let value = match scalar::resolve(scalar, text) {
                    Ok(value) => value,
                    Err(found) => self.refuse_tag(scalar.tag, found, (text, place)),
                };
                if value == Value::Binary {
                    let bytes = self.decode(text, place);
                    self.write_scalar(value, &bytes, anchor);
                } else {
                    self.write_scalar(value, text, anchor);
                }
                self.done(slot);
            }
        }
    }

    fn write_scalar(&mut self, value: Value, text: &[u8], anchor: Option<usize>) {
        let start = if self.slot() == Slot::Key {
            self.write_key(value, text)
        } else {
            self.write_value(value, text)
        };
        self.close_scalar_anchor(anchor, value, start);
    }

    /// A scalar that is not part of the result may have a name all the same.
    fn note_unread(&mut self, text: &[u8], anchor: Option<usize>) {
        if anchor.is_some() {
            let start = self.offset();
            text::write(text, &mut self.raw);
            self.close_scalar_anchor(anchor, Value::Str, start);
        }
    }

    fn decode(&mut self, text: &[u8], place: Place) -> Vec<u8> {
        base64::decode(text).unwrap_or_else(|| {
            self.fail(Error::value("!!binary value contains invalid base64 data", place));
            Vec::new()
        })
    }

    fn refuse_tag(&mut self, tag: Tag, found: Tag, (text, place): (&[u8], Place)) -> Value {
        self.fail(Error::wrong_tag(text, (found, tag), place));
        Value::Null
    }

    fn fail(&mut self, error: Error) {
        self.refusal.get_or_insert(Refusal::Error(error));
    }

    /// Writes a value and what separates it from the one before. Returns
    /// where it starts.
    fn write_value(&mut self, value: Value, text: &[u8]) -> Offset {
        self.separate();
        let start = self.offset();
        match value {
            Value::Null => self.raw.extend_from_slice(b"null"),
            Value::Bool(true) => self.raw.extend_from_slice(b"true"),
            Value::Bool(false) => self.raw.extend_from_slice(b"false"),
            Value::Int(number) => text::write_number(number, &mut self.raw),
            Value::Uint(number) => text::write_number(number, &mut self.raw),
            Value::Float(number) if number.is_finite() => float::write_json(number, &mut self.raw),
            Value::Float(number) => {
                self.has_poison = true;
                self.raw.push(POISON);
                self.raw.extend_from_slice(float::non_finite(number).as_bytes());
            }
            Value::Str | Value::Timestamp => text::write(text, &mut self.raw),
            Value::Binary => text::write_lossy(text, &mut self.raw),
        }
        start
    }

    fn slot(&self) -> Slot {
        self.slot.unwrap_or(Slot::Root)
    }

    fn offset(&self) -> Offset {
        Offset::new(self.raw.len())
    }
}
