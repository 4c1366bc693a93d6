//! JSON strings and their spellings that YAML refuses or changes.

use crate::go_on::GoOn;

/// Bytes of a new text after which the caller is asked.
const INTERVAL: usize = 64 << 10;

/// Bytes that are looked at together, enough for vector instructions.
const BLOCK: usize = 16;

/// A string in a JSON text.
pub(super) struct JsonString {
    /// Offset of the byte after the closing quote.
    pub(super) end: usize,
    /// YAML refuses the string or reads another value.
    pub(super) is_unportable: bool,
}

impl JsonString {
    /// The string whose opening quote is at `start`.
    pub(super) fn at(json: &[u8], start: usize) -> Self {
        let mut is_unportable = false;
        let mut rest = &json[start + 1..];
        loop {
            rest = &rest[ordinary(rest)..];
            let width = match rest {
                [] => break,
                [b'"', ..] => {
                    rest = &rest[1..];
                    break;
                }
                [b'\\', ..] => {
                    is_unportable |= matches!(rest, [_, b'/', ..]) || surrogates(rest).is_some();
                    2
                }
                _ => {
                    is_unportable |= unportable_character(rest).is_some();
                    1
                }
            };
            rest = rest.get(width..).unwrap_or_default();
        }
        Self { end: json.len() - rest.len(), is_unportable }
    }
}

/// Length in bytes of the characters at the start of `text` that neither end the string nor
/// need a closer look.
fn ordinary(text: &[u8]) -> usize {
    let ends = |byte: u8| matches!(byte, b'"' | b'\\' | 0x7F | 0xC2 | 0xE2 | 0xEF);
    let blocks = text.chunks_exact(BLOCK);
    let is_ordinary = |block: &&[u8]| !block.iter().fold(false, |found, &byte| found | ends(byte));
    let length = blocks.take_while(is_ordinary).count() * BLOCK;
    let rest = &text[length..];
    length + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
}

/// The character encoded by the surrogate pair at the start of `text`.
fn surrogates(text: &[u8]) -> Option<char> {
    let (high, low) = (code(text)?, code(text.get(6..)?)?);
    let is_pair = (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low);
    let code = is_pair.then(|| 0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF));
    code.and_then(char::from_u32)
}

/// The code of the escape `\uXXXX` at the start of `text`.
fn code(text: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = text else {
        return None;
    };
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// The character at the start of `text` and its length, if YAML refuses it or
/// reads it as a line break.
fn unportable_character(text: &[u8]) -> Option<(char, usize)> {
    match text {
        [0x7F, ..] => Some(('\x7F', 1)),
        [0xC2, byte @ 0x80..=0x9F, ..] => Some((char::from(*byte), 2)),
        [0xE2, 0x80, 0xA8, ..] => Some(('\u{2028}', 3)),
        [0xE2, 0x80, 0xA9, ..] => Some(('\u{2029}', 3)),
        [0xEF, 0xBF, 0xBE, ..] => Some(('\u{FFFE}', 3)),
        [0xEF, 0xBF, 0xBF, ..] => Some(('\u{FFFF}', 3)),
        _ => None,
    }
}

/// A text in another spelling, and its supervision.
pub(super) struct Spelling<'w, 'f> {
    pub(super) text: Vec<u8>,
    /// The length at which the caller is asked.
    due: usize,
    go_on: &'w mut GoOn<'f>,
}

impl<'w, 'f> Spelling<'w, 'f> {
    pub(super) fn new(go_on: &'w mut GoOn<'f>) -> Self {
        Self { text: Vec::new(), due: INTERVAL, go_on }
    }

    /// Appends a string with quotes in a spelling that YAML accepts. `shorten` also
    /// decodes escapes. `None` if the caller stops it.
    pub(super) fn append(&mut self, string: &[u8], shorten: bool) -> Option<()> {
        let mut rest = string;
        while let [byte, next @ ..] = rest {
            let out = &mut self.text;
            let width = if *byte == b'\\' { rewrite_escape(rest, shorten, out) } else { 0 };
            rest = if width > 0 {
                rest.get(width..).unwrap_or_default()
            } else if let Some((character, width)) = unportable_character(rest) {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                &rest[width..]
            } else {
                out.push(*byte);
                next
            };
            if self.text.len() >= self.due {
                self.due = self.text.len() + INTERVAL;
                self.is_granted()?;
            }
        }
        Some(())
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let is_long = self.text.len() >= INTERVAL;
        (!is_long || self.is_granted().is_some()).then_some(self.text)
    }

    fn is_granted(&mut self) -> Option<()> {
        (self.go_on)(self.text.len()).then_some(())
    }
}

/// Writes the escape at the start of `text`, decoded if needed. Returns the
/// escape's length.
fn rewrite_escape(text: &[u8], shorten: bool, out: &mut Vec<u8>) -> usize {
    let raw = match (text, surrogates(text)) {
        ([_, b'/', ..], _) => Some(('/', 2)),
        (_, Some(character)) => Some((character, 12)),
        _ if shorten => raw_character(text).map(|character| (character, 6)),
        _ => None,
    };
    if let Some((character, width)) = raw {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        return width;
    }
    let escape = text.get(..2).unwrap_or(text);
    out.extend_from_slice(escape);
    escape.len()
}

/// The character of an escape, if YAML accepts it unescaped.
fn raw_character(text: &[u8]) -> Option<char> {
    let character = char::from_u32(code(text)?)?;
    let is_special = matches!(character, '"' | '\\' | '\0'..='\x1F');
    let bytes = &mut [0; 4];
    let is_unportable = unportable_character(character.encode_utf8(bytes).as_bytes()).is_some();
    (!is_special && !is_unportable).then_some(character)
}
