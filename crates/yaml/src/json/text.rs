//! Strings and integers as Go's `encoding/json` writes them.

use std::{io::Write as _, str::Utf8Chunk};

use crate::class::{self, ESCAPED};

/// Writes a string. `text` must be UTF-8.
pub(super) fn write(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Writes a string of any bytes. Each byte that is not UTF-8 becomes `\ufffd`.
pub(super) fn write_lossy(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        write_escaped(chunk.valid().as_bytes(), out);
        for _ in chunk.invalid() {
            out.extend_from_slice(br"\ufffd");
        }
    }
    out.push(b'"');
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(run) = rest.iter().position(|&byte| class::of(byte) & ESCAPED != 0) {
        let (plain, special) = rest.split_at(run);
        out.extend_from_slice(plain);
        rest = write_special(special, out);
    }
    out.extend_from_slice(rest);
}

/// Upper bound of the escaped length in bytes, without quotes. LS and PS are
/// not counted.
pub(super) fn escaped_len(text: &[u8]) -> usize {
    let is_escaped = |&&byte: &&u8| byte < 0x80 && class::of(byte) & ESCAPED != 0;
    text.len() + 5 * text.iter().filter(is_escaped).count()
}

/// Upper bound of the escaped length of any bytes, without quotes. Invalid UTF-8
/// becomes `\ufffd`.
pub(super) fn lossy_len(bytes: &[u8]) -> usize {
    let chunks = bytes.utf8_chunks();
    let len = |chunk: Utf8Chunk<'_>| {
        escaped_len(chunk.valid().as_bytes()) + br"\ufffd".len() * chunk.invalid().len()
    };
    chunks.map(len).sum()
}

/// Writes the first character of `text`. Returns the rest.
fn write_special<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (&byte, rest) = text.split_first().unwrap_or((&0, text));
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        0xE2 => {
            let Some((character, rest)) = text.split_at_checked(3) else {
                return rest;
            };
            match character[1..] {
                [0x80, 0xA8] => out.extend_from_slice(br"\u2028"),
                [0x80, 0xA9] => out.extend_from_slice(br"\u2029"),
                _ => out.extend_from_slice(character),
            }
            return rest;
        }
        _ => {
            let hex = b"0123456789abcdef";
            out.extend_from_slice(br"\u00");
            out.extend([hex[usize::from(byte >> 4)], hex[usize::from(byte & 0xF)]]);
            return rest;
        }
    };
    out.extend([b'\\', short]);
    rest
}

pub(super) fn write_number(number: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a `Vec` cannot fail.
    let _ = write!(out, "{number}");
}
