//! Mapping keys. YAML allows any node, JSON only strings.

use std::cmp::Ordering;

use super::{Entry, Offset, Place, UNENCODABLE, Value, WriteError, Writer, float, text};

impl Writer {
    /// Writes a key and its colon. Returns the key's start.
    pub(super) fn write_key(&mut self, value: Value, characters: &[u8], place: Place) -> Offset {
        let start = self.start_entry();
        match value {
            Value::Str | Value::Timestamp => text::write(characters, &mut self.raw),
            Value::Binary => text::write_lossy(characters, &mut self.raw),
            Value::Null => self.write_bad_key("null", place),
            Value::Uint(number) => self.write_bad_key(number, place),
            Value::Bool(value) => self.write_quoted(|raw| text::write_number(value, raw)),
            Value::Int(number) => self.write_quoted(|raw| text::write_number(number, raw)),
            Value::Float(number) => self.write_quoted(|raw| float::write_key(number, raw)),
        }
        if value == Value::Float(0.0) {
            self.forget_zero();
        }
        self.end_key(start);
        start
    }

    fn write_quoted(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.raw.push(b'"');
        write(&mut self.raw);
        self.raw.push(b'"');
    }

    /// Writes a key that `sigs.k8s.io/yaml` cannot convert. It is an error only
    /// if no later entry replaces it.
    fn write_bad_key(&mut self, name: impl std::fmt::Display, place: Place) {
        self.unencodable.get_or_insert(place);
        self.write_quoted(|raw| {
            raw.extend_from_slice(&[UNENCODABLE, b'k']);
            text::write_number(name, raw);
        });
    }

    /// Removes an earlier key that is a float zero. Go's maps treat `0.0` and
    /// `-0.0` as one key, although their texts differ.
    fn forget_zero(&mut self) {
        let next = self.entries.len();
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if let Some(zero) = frame.float_zero.replace(next) {
            self.entries.remove(zero);
            frame.float_zero = Some(next - 1);
            frame.is_unsorted = true;
        }
    }

    /// Refuses a collection as a key. The collection has already been written.
    pub(super) fn refuse_key(&mut self, place: Place) {
        self.refusal.get_or_insert(WriteError::Key(place));
        let start = self.start_entry();
        self.raw.extend_from_slice(b"\"\"");
        self.end_key(start);
    }

    /// Writes the comma before every entry but the first. Returns the entry's
    /// start.
    pub(super) fn start_entry(&mut self) -> Offset {
        let first = self.frames.last().map_or(0, |frame| frame.entries);
        if self.entries.len() > first {
            self.raw.push(b',');
        }
        self.offset()
    }

    /// Writes the colon and notes if the key is out of order.
    pub(super) fn end_key(&mut self, start: Offset) {
        self.raw.push(b':');
        let value = self.offset();
        let entry = Entry { start, value, end: value };
        if let Some(frame) = self.frames.last_mut()
            && !frame.is_unsorted
            && let Some(&before) = self.entries.get(frame.entries..).and_then(<[Entry]>::last)
        {
            frame.is_unsorted = before.compare(entry, &self.raw) != Ordering::Less;
        }
        self.entries.push(entry);
    }
}
