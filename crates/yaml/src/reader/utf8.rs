//! UTF-8 checks with go-yaml's error texts.

use super::{Fault, is_allowed};
use crate::class::break_len;

/// The document ends inside a character.
pub(super) const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// Bytes checked at once; large enough for vector instructions.
const BLOCK: usize = 64;

/// The first character that is not allowed, and a flag that is true if line
/// breaks of several bytes come before it.
pub(super) fn check(text: &[u8]) -> (Option<Fault>, bool) {
    let mut has_wide_breaks = false;
    let mut at = 0;
    while at < text.len() {
        let end = text.len().min(at + BLOCK);
        if text[at..end].iter().fold(true, |plain, &byte| plain & is_plain(byte)) {
            at = end;
            continue;
        }
        while at < end {
            match character(&text[at..]) {
                Ok(width) => {
                    has_wide_breaks |= width > 1 && break_len(&text[at..]) > 0;
                    at += width;
                }
                Err(problem) => {
                    return (Some(Fault { offset: at, problem }), has_wide_breaks);
                }
            }
        }
    }
    (None, has_wide_breaks)
}

/// An ASCII character that YAML allows.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')
}

/// Length in bytes of a character whose first byte is `lead`.
pub(super) fn width(lead: u8) -> Option<usize> {
    match lead {
        0x00..=0x7F => Some(1),
        0xC0..=0xDF => Some(2),
        0xE0..=0xEF => Some(3),
        0xF0..=0xF7 => Some(4),
        _ => None,
    }
}

/// Length in bytes of the first character of `text`. `text` must not be empty.
fn character(text: &[u8]) -> Result<usize, &'static str> {
    let lead = text[0];
    if is_plain(lead) {
        return Ok(1);
    }
    let width = width(lead).ok_or("invalid leading UTF-8 octet")?;
    let Some(bytes) = text.get(..width) else {
        return Err(INCOMPLETE);
    };
    let mut value = match width {
        1 => u32::from(lead),
        _ => u32::from(lead) & (0x7F >> width),
    };
    for &byte in &bytes[1..] {
        if byte & 0xC0 != 0x80 {
            return Err("invalid trailing UTF-8 octet");
        }
        value = value << 6 | u32::from(byte & 0x3F);
    }
    match (width, value) {
        (2, ..0x80) | (3, ..0x800) | (4, ..0x1_0000) => Err("invalid length of a UTF-8 sequence"),
        (_, 0xD800..=0xDFFF | 0x11_0000..) => Err("invalid Unicode character"),
        _ if !is_allowed(value) => Err("control characters are not allowed"),
        _ => Ok(width),
    }
}
