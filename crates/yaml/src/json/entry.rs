//! Entries of JSON objects.

use std::{borrow::Cow, cmp::Ordering};

use crate::offset::Offset;

/// Position of one entry `"key":value` in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Offset of the key's opening quote.
    pub(super) start: Offset,
    /// Offset of the value, after the colon.
    pub(super) value: Offset,
    /// Offset of the byte after the value.
    pub(super) end: Offset,
}

impl Entry {
    /// The escaped key, without quotes.
    fn key(self, raw: &[u8]) -> &[u8] {
        &raw[self.start.get() + 1..self.value.get() - 2]
    }

    /// Compares two keys by their unescaped bytes, as Go does.
    pub(super) fn compare(self, other: Self, raw: &[u8]) -> Ordering {
        let (key, other) = (self.key(raw), other.key(raw));
        let Some(at) = key.iter().zip(other).position(|(one, other)| one != other) else {
            // One of them is the other's beginning. An escape is whole in both.
            return key.len().cmp(&other.len());
        };
        // The digits of `\u` are in the order of their characters.
        if key[..at].ends_with(b"\\") || key[at] == b'\\' || other[at] == b'\\' {
            return unescape(key).cmp(&unescape(other));
        }
        key[at].cmp(&other[at])
    }
}

/// The key's bytes without JSON escapes.
fn unescape(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.contains(&b'\\') {
        return Cow::Borrowed(key);
    }
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some(run) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(run);
        bytes.extend_from_slice(plain);
        rest = unescape_one(escape, &mut bytes);
    }
    bytes.extend_from_slice(rest);
    Cow::Owned(bytes)
}

fn unescape_one<'a>(escape: &'a [u8], bytes: &mut Vec<u8>) -> &'a [u8] {
    let (byte, rest) = match escape {
        [_, b'u', digits @ ..] => {
            let (digits, rest) = digits.split_at_checked(4).unwrap_or((digits, b""));
            let code = std::str::from_utf8(digits)
                .ok()
                .and_then(|text| u32::from_str_radix(text, 16).ok());
            let character = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return rest;
        }
        [_, b'n', rest @ ..] => (b'\n', rest),
        [_, b'r', rest @ ..] => (b'\r', rest),
        [_, b't', rest @ ..] => (b'\t', rest),
        [_, b'b', rest @ ..] => (0x08, rest),
        [_, b'f', rest @ ..] => (0x0C, rest),
        [_, byte, rest @ ..] => (*byte, rest),
        _ => return b"",
    };
    bytes.push(byte);
    rest
}

#[cfg(test)]
mod tests {
    use super::{super::text, *};

    /// The keys `one` and `other` as the writer leaves them.
    fn entries(one: &str, other: &str) -> ([Entry; 2], Vec<u8>) {
        let mut raw = Vec::new();
        let entries = [one, other].map(|key| {
            let start = Offset::new(raw.len());
            text::write(key.as_bytes(), &mut raw);
            raw.push(b':');
            Entry { start, value: Offset::new(raw.len()), end: Offset::new(raw.len()) }
        });
        (entries, raw)
    }

    #[test]
    fn keys_are_in_the_order_of_their_unescaped_bytes() {
        let characters = [
            "", "a", "z", "u", "\"", "\\", "\n", "\t", "\u{1}", "\u{10}", "\u{2028}", "\u{2029}",
            "é",
        ];
        let keys: Vec<_> = characters
            .iter()
            .flat_map(|first| characters.map(|second| format!("{first}{second}")))
            .collect();
        for one in &keys {
            for other in &keys {
                let ([first, second], raw) = entries(one, other);
                assert_eq!(first.compare(second, &raw), one.cmp(other), "{one:?}, {other:?}");
            }
        }
    }
}
