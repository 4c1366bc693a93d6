//! JSON that Argo CD's YAML parser accepts.
//!
//! The repo-server parses each manifest again, as YAML 1.1. That parser refuses
//! some JSON and drops line breaks from other JSON. This module replaces such
//! strings by another spelling with the same meaning. If there is none (bytes
//! that are not UTF-8, half a surrogate pair), the string stays, and the
//! repo-server refuses it.

mod string;

use std::borrow::Cow;

use self::string::{JsonString, Spelling};
use crate::go_on::{GoOn, always};

/// Longest key in characters, with everything before its colon. The limit is
/// YAML 1.1's.
const MAX_KEY_CHARACTERS: usize = 1024;

/// Bytes that are looked at together, enough for vector instructions. A key and the spaces
/// before its colon end before the second quote after its first one, so they are short
/// enough if each block has a quote.
const BLOCK: usize = MAX_KEY_CHARACTERS / 4;

/// The same JSON value in a spelling that YAML 1.1 reads alike. Borrowed if
/// nothing had to change, which is the normal case. If `json` is not JSON, the
/// result is unspecified.
#[must_use]
pub fn portable(json: &[u8]) -> Cow<'_, [u8]> {
    portable_while(json, &mut always).unwrap_or(Cow::Borrowed(json))
}

/// Like [`portable`]; `None` if `go_on` stops it. One byte may become six, so `go_on` is
/// asked at intervals, with the bytes of the new text.
pub fn portable_while<'j>(json: &'j [u8], go_on: &mut GoOn<'_>) -> Option<Cow<'j, [u8]>> {
    if is_plain(json) {
        return Some(Cow::Borrowed(json));
    }
    let mut rewritten = Spelling::new(go_on);
    let mut kept = 0;
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'"', &json[at..]) {
        let start = at + offset;
        let text = JsonString::at(json, start);
        let colon = colon_behind(json, text.end);
        at = text.end;
        let is_long_key =
            colon.is_some_and(|colon| !is_good_key(&json[start..colon], colon - text.end));
        if !is_long_key && !text.is_unportable {
            continue;
        }
        rewritten.text.extend_from_slice(&json[kept..start]);
        rewritten.append(&json[start..text.end], is_long_key)?;
        at = colon.filter(|_| is_long_key).unwrap_or(text.end);
        kept = at;
    }
    if kept == 0 {
        return Some(Cow::Borrowed(json));
    }
    rewritten.text.extend_from_slice(&json[kept..]);
    rewritten.finish().map(Cow::Owned)
}

/// Offset of the colon after the string that ends at `end`, if the string is a
/// key.
fn colon_behind(json: &[u8], end: usize) -> Option<usize> {
    let rest = json.get(end..)?;
    let spaces = rest.iter().position(|byte| !b" \t\r\n".contains(byte))?;
    (rest[spaces] == b':').then_some(end + spaces)
}

/// YAML recognises the key. `key` includes everything before its colon, of which the last
/// `spaces` bytes are white space.
fn is_good_key(key: &[u8], spaces: usize) -> bool {
    let is_short = key.len() <= MAX_KEY_CHARACTERS
        || key.iter().filter(|&byte| byte & 0xC0 != 0x80).count() <= MAX_KEY_CHARACTERS;
    is_short && !key[key.len() - spaces..].iter().any(|byte| b"\r\n".contains(byte))
}

/// Nothing has to change, as a quick look shows: no escapes, ASCII alone, and quotes near
/// each other.
fn is_plain(json: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'[' | b']'..=b'~');
    json.chunks(BLOCK).all(|block| {
        let is_last = block.len() < BLOCK;
        block.iter().fold(true, |plain, byte| plain & is_plain(byte))
            && (is_last || memchr::memchr(b'"', block).is_some())
    })
}
