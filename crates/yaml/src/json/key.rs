//! Keys: YAML's may be anything, JSON's are strings.

use std::cmp::Ordering;

use super::{Entry, Offset, POISON, Place, Refusal, Value, Writer, float, text};

impl Writer {
    /// Writes a key and its colon. Returns where the key starts.
    pub(super) fn write_key(&mut self, value: Value, characters: &[u8]) -> Offset {
        let start = self.start_entry();
        match value {
            Value::Str | Value::Timestamp => text::write(characters, &mut self.raw),
            Value::Binary => text::write_lossy(characters, &mut self.raw),
            Value::Null => self.write_bad_key("null"),
            Value::Uint(number) => self.write_bad_key(number),
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

    /// A key that upstream has no string for. It only matters if the entry is
    /// still there in the end.
    fn write_bad_key(&mut self, name: impl std::fmt::Display) {
        self.has_poison = true;
        self.write_quoted(|raw| {
            raw.extend_from_slice(&[POISON, b'k']);
            text::write_number(name, raw);
        });
    }

    /// To Go's maps `0.0` and `-0.0` are one key, although they are written
    /// differently: the one before goes.
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

    /// A collection is no key, which shows only behind it.
    pub(super) fn refuse_key(&mut self, place: Place) {
        self.refusal.get_or_insert(Refusal::Key(place));
        let start = self.start_entry();
        self.raw.extend_from_slice(b"\"\"");
        self.end_key(start);
    }

    /// The comma before an entry that is not the first. Returns where the
    /// entry starts.
    pub(super) fn start_entry(&mut self) -> Offset {
        let first = self.frames.last().map_or(0, |frame| frame.entries);
        if self.entries.len() > first {
            self.raw.push(b',');
        }
        self.offset()
    }

    /// The colon, and what the key tells about the order.
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
