//! Decodes UTF-8 as Go's `unicode/utf8` does.

/// Go's replacement for a byte that is not UTF-8.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// The first character of `bytes` and its width in bytes. An invalid byte is a
/// character of width 1.
pub(super) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first.is_ascii() {
        return Some((char::from(first), 1));
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((REPLACEMENT, 1)),
    };
    let encoded = bytes.get(..width).and_then(|bytes| str::from_utf8(bytes).ok());
    let decoded = encoded.and_then(|text| text.chars().next());
    Some(decoded.map_or((REPLACEMENT, 1), |character| (character, width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_byte_is_a_character_of_width_1() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"a"), Some(('a', 1)));
        assert_eq!(decode("é!".as_bytes()), Some(('é', 2)));
        assert_eq!(decode("𝄞".as_bytes()), Some(('𝄞', 4)));
        for invalid in [&b"\xC3"[..], b"\xC3a", b"\xA9", b"\xFF", b"\xED\xA0\x80", b"\xC0\x80"] {
            assert_eq!(decode(invalid), Some((REPLACEMENT, 1)), "{invalid:?}");
        }
    }
}
