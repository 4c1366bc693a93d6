//! Writes JSON from events.
//!
//! Each value is written once, in document order. If the final order differs
//! (unsorted or repeated keys, merges, aliases), a patch records the
//! difference. The final text is assembled at the end, so each byte is copied
//! at most twice at any depth.

mod alias;
mod base64;
mod entry;
mod frame;
mod key;
mod mapping;
mod merge;
mod patch;
mod size;
mod slot;
mod text;

use std::collections::HashMap;

use self::{
    alias::{Anchor, NodeCount},
    entry::Entry,
    frame::{Collection, Frame},
    merge::{MergeList, MergeSource},
    patch::Patch,
    slot::Slot,
};
use super::{
    error::Error,
    event::{Event, EventKind, Scalar, Tag},
    float,
    go_on::GoOn,
    offset::Offset,
    parser::Parser,
    place::Place,
    scalar::{self, Value},
};

/// Marks a value that JSON cannot express. No UTF-8 text contains this byte.
pub(super) const UNENCODABLE: u8 = 0xFF;

/// Upper bound of every limit, in bytes. A text of this size can grow six-fold
/// before its size is checked, and offsets must still fit into 32 bits.
pub(super) const MAX_OUTPUT_BYTES: usize = 512 << 20;

/// For texts of at least this many bytes the final size is checked before they
/// are written.
const LONG_TEXT_BYTES: usize = 64 << 10;

/// Events between two questions to the caller.
const EVENTS: u32 = 4096;

/// Bytes written between two questions to the caller, for documents of few
/// long texts.
const STRETCH: usize = 1 << 20;

/// The reason why a document has no JSON.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The error is complete.
    Error(Error),
    /// A collection is used as a key. The caller adds the key's text to the
    /// error.
    Key(Place),
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Writes the JSON of one document after another and reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct Writer {
    limit: usize,
    raw: Vec<u8>,
    slot: Option<Slot>,
    frames: Vec<Frame>,
    entries: Vec<Entry>,
    patches: Vec<Patch>,
    /// The entries that patches refer to, in their final order.
    pieces: Vec<Entry>,
    /// Mappings whose entries must be merged into the current mapping.
    sources: Vec<MergeSource>,
    /// Buffer for sorting the entries of a small object.
    moved: Vec<u8>,
    anchors: Vec<Anchor>,
    names: HashMap<Box<[u8]>, usize>,
    counted: NodeCount,
    /// Upper bound of the bytes that `out` will have more than `raw`.
    growth: usize,
    /// Length of `out` before the document.
    before: usize,
    /// Events since the last question to the caller, over all documents.
    events: u32,
    /// Length of `raw` at the last question.
    asked: usize,
    height: usize,
    /// Place of the first [`UNENCODABLE`] value.
    unencodable: Option<Place>,
    /// The first invalid value. A later syntax error takes precedence, as in
    /// go-yaml.
    refusal: Option<WriteError>,
}

/// Properties of a document that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    /// Deepest nesting of collections.
    pub(super) depth: usize,
    /// The text may contain [`UNENCODABLE`], first for the node at this place.
    pub(super) unencodable: Option<Place>,
}

impl Writer {
    /// A writer that refuses texts of more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.min(MAX_OUTPUT_BYTES), ..Self::default() }
    }

    /// Reads the parser's document, whose JSON will be appended to `before` bytes.
    pub(super) fn read(
        &mut self,
        parser: &mut Parser<'_>,
        before: usize,
        go_on: &mut GoOn<'_>,
    ) -> Result<(), WriteError> {
        self.clear();
        (self.growth, self.before) = (before, before);
        Ok(self.read_events(parser, go_on)?)
    }

    /// Appends the JSON of the document that was read to `out`.
    pub(super) fn finish(
        &mut self,
        out: &mut Vec<u8>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Written, WriteError> {
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
        if self.raw.is_empty() {
            self.raw.extend_from_slice(b"null");
        }
        self.announce(go_on)?;
        self.assemble(out);
        self.release();
        Ok(Written { depth: self.height, unencodable: self.unencodable })
    }

    fn read_events(&mut self, parser: &mut Parser<'_>, go_on: &mut GoOn<'_>) -> Result<(), Error> {
        loop {
            let event = parser.next_event()?;
            let anchor = self.open_anchor(parser, &event);
            match event.kind {
                EventKind::Scalar(scalar) => {
                    let text = parser.text(scalar.text);
                    let written = self.check_text(scalar.tag, text)?;
                    self.make_room(written, (parser.memory(), &mut *go_on))?;
                    self.scalar(&scalar, text, (event.place, anchor));
                }
                EventKind::MappingStart => self.open_mapping(event.place, anchor),
                EventKind::MappingEnd => self.close_mapping(),
                EventKind::SequenceStart => self.open_sequence(event.place, anchor),
                EventKind::SequenceEnd => self.close_sequence(),
                EventKind::Alias(name) => {
                    let room = (parser.memory(), &mut *go_on);
                    self.alias(parser.text(name), event.place, room)?;
                }
                EventKind::DocumentStart => self.count(1, 0, event.place),
                EventKind::DocumentEnd | EventKind::StreamEnd => return Ok(()),
            }
            self.check_size()?;
            self.events += 1;
            if self.events >= EVENTS || self.raw.len() - self.asked >= STRETCH {
                self.ask(go_on, parser.memory())?;
            }
        }
    }

    /// Checks that the final text can still fit into the limit.
    fn check_size(&self) -> Result<(), Error> {
        // A refused document is never assembled, so its growth does not count.
        let growth = if self.refusal.is_none() { self.growth } else { 0 };
        if self.raw.len().saturating_add(growth) <= self.limit {
            return Ok(());
        }
        Err(self.too_large())
    }

    /// Checks a long text against the limit before it is written. Returns an upper bound of
    /// the bytes that this takes, and 0 for a short text.
    fn check_text(&self, tag: Tag, text: &[u8]) -> Result<usize, Error> {
        if text.len() < LONG_TEXT_BYTES {
            return Ok(0);
        }
        let written = text::escaped_len(text);
        if !self.fits(text.len(), || written) {
            return Err(self.too_large());
        }
        Ok(if tag == Tag::Binary { base64::max_written_len(text) } else { written })
    }

    /// A text of `len` bytes is short, or fits into the limit as it will be `written`.
    fn fits(&self, len: usize, written: impl FnOnce() -> usize) -> bool {
        len < LONG_TEXT_BYTES || self.raw.len().saturating_add(written()) <= self.limit
    }

    fn too_large(&self) -> Error {
        Error::limit(format!("the JSON exceeds the limit of {} bytes", self.limit))
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
                self.count(1, 0, place);
                let value = match scalar::resolve(scalar, text) {
                    Ok(value) => value,
                    Err(found) => {
                        self.fail(Error::wrong_tag(text, found, scalar.tag, place));
                        Value::Null
                    }
                };
                if value == Value::Binary {
                    let bytes = self.decode(text, place);
                    self.write_scalar(value, &bytes, (place, anchor));
                } else {
                    self.write_scalar(value, text, (place, anchor));
                }
                self.done(slot);
            }
        }
    }

    fn write_scalar(&mut self, value: Value, text: &[u8], (place, anchor): (Place, Option<usize>)) {
        let start = if self.slot() == Slot::Key {
            self.write_key(value, text, place)
        } else {
            self.write_value(value, text, place)
        };
        self.close_scalar_anchor(anchor, value, start);
    }

    /// Writes a scalar that is not part of the result, because an alias may use
    /// it.
    fn note_unread(&mut self, text: &[u8], anchor: Option<usize>) {
        if anchor.is_some() {
            let start = self.offset();
            text::write(text, &mut self.raw);
            self.close_scalar_anchor(anchor, Value::Str, start);
        }
    }

    fn decode(&mut self, text: &[u8], place: Place) -> Vec<u8> {
        let error = match base64::decode(text) {
            Some(bytes) if self.fits(bytes.len(), || text::lossy_len(&bytes)) => return bytes,
            Some(_) => self.too_large(),
            None => Error::value("!!binary value contains invalid base64 data", place),
        };
        self.fail(error);
        Vec::new()
    }

    fn fail(&mut self, error: Error) {
        self.refusal.get_or_insert(WriteError::Error(error));
    }

    /// Writes a value and the comma before it. Returns the value's start.
    fn write_value(&mut self, value: Value, text: &[u8], place: Place) -> Offset {
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
                self.unencodable.get_or_insert(place);
                self.raw.push(UNENCODABLE);
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
