//! Byte classes for the scanner and the JSON writer.

/// Space and TAB.
pub(super) const BLANK: u8 = 1;
/// LF and CR, the line breaks of one byte.
pub(super) const BREAK: u8 = 1 << 1;
/// First byte of NEL, LS and PS, which are line breaks of several bytes. Other
/// characters start with these bytes too.
pub(super) const WIDE: u8 = 1 << 2;
/// Ends a plain scalar within `[…]` or `{…}`.
pub(super) const FLOW: u8 = 1 << 3;
/// Ends a plain scalar beside a blank: `:` before one, and `#` behind one.
pub(super) const MARK: u8 = 1 << 4;
/// Written as an escape by Go's JSON encoder.
pub(super) const ESCAPED: u8 = 1 << 5;
/// Allowed in the name of an anchor, alias, directive or tag handle.
pub(super) const WORD: u8 = 1 << 6;
/// Allowed in a tag's URI, in addition to `WORD` and `%`.
pub(super) const URI: u8 = 1 << 7;

const SPACES: &[u8; 8] = b"        ";

pub(super) static CLASSES: [u8; 256] = classes();

/// All classes of a byte, as a bit set.
#[inline]
pub(super) fn of(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Number of spaces at the start of `text`. Indentation is compared in whole words.
#[inline]
pub(super) fn spaces(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((SPACES, next)) = rest.split_first_chunk() {
        rest = next;
    }
    while let [b' ', next @ ..] = rest {
        rest = next;
    }
    text.len() - rest.len()
}

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    table = with(table, b" \t", BLANK);
    table = with(table, b"\r\n", BREAK);
    table = with(table, &[0xC2, 0xE2], WIDE);
    table = with(table, b",?[]{}", FLOW);
    table = with(table, b":#", MARK);
    table = with(table, &[b'"', b'\\', b'<', b'>', b'&', 0xE2], ESCAPED);
    table = with(table, b";/?:@&=+$,.!~*'()[]", URI);
    let mut byte = 0;
    while byte < 256 {
        if byte < 0x20 {
            table[byte] |= ESCAPED;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 256; `try_from` is not const")]
        if (byte as u8).is_ascii_alphanumeric() || byte == 0x5F || byte == 0x2D {
            table[byte] |= WORD;
        }
        byte += 1;
    }
    table
}

const fn with(mut table: [u8; 256], bytes: &[u8], class: u8) -> [u8; 256] {
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] |= class;
        index += 1;
    }
    table
}

/// Length in bytes of the line break at the start of `bytes`, 0 if there is
/// none. CR LF is one break. YAML 1.1 also has NEL, LS and PS.
#[inline]
pub(super) fn break_len(bytes: &[u8]) -> usize {
    match bytes {
        [b'\r', b'\n', ..] | [0xC2, 0x85, ..] => 2,
        [b'\n' | b'\r', ..] => 1,
        [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
        _ => 0,
    }
}
