//! JSON that Argo CD can read as YAML.
//!
//! The repo-server parses each manifest it is given once more, as YAML 1.1,
//! which refuses some JSON and takes line breaks out of other. What has
//! another spelling with the same meaning gets it here; what has none (bytes
//! that are not UTF-8, half of a surrogate pair) stays, for the repo-server to
//! refuse.

mod string;

use std::borrow::Cow;

use self::string::JsonString;

/// How many characters a key may have, with all that stands before its colon.
const MAX_KEY_CHARACTERS: usize = 1024;

/// The same value, spelled so that YAML 1.1 reads it too. Borrowed, if it
/// already was, which is the rule. `json` is JSON; of anything else, some
/// text comes back.
#[must_use]
pub fn portable(json: &[u8]) -> Cow<'_, [u8]> {
    let mut rewritten = Vec::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'"', &json[at..]) {
        let start = at + offset;
        let text = JsonString::at(json, start);
        let colon = colon_behind(json, text.end);
        at = text.end;
        let is_long_key = colon.is_some_and(|colon| !is_good_key(&json[start..colon]));
        if !is_long_key && !text.is_hostile {
            continue;
        }
        rewritten.extend_from_slice(&json[kept..start]);
        string::rewrite(&json[start..text.end], is_long_key, &mut rewritten);
        at = colon.filter(|_| is_long_key).unwrap_or(text.end);
        kept = at;
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    rewritten.extend_from_slice(&json[kept..]);
    Cow::Owned(rewritten)
}

/// Where the colon stands that makes the text before `end` a key.
fn colon_behind(json: &[u8], end: usize) -> Option<usize> {
    let rest = json.get(end..)?;
    let spaces = rest.iter().position(|byte| !b" \t\r\n".contains(byte))?;
    (rest[spaces] == b':').then_some(end + spaces)
}

/// Whether YAML recognises a key, given with all up to its colon.
fn is_good_key(key: &[u8]) -> bool {
    let is_short = key.len() <= MAX_KEY_CHARACTERS
        || key.iter().filter(|&byte| byte & 0xC0 != 0x80).count() <= MAX_KEY_CHARACTERS;
    is_short && memchr::memchr2(b'\n', b'\r', key).is_none()
}
