//! Masks credentials in logs and error texts.
//!
//! Two kinds of credentials are recognised: the part before the `@` of a URL,
//! and values of environment variables whose names suggest a credential. A
//! value that a program encodes, splits or prints over several lines is not
//! recognised.

use std::{
    collections::HashSet,
    fmt,
    ops::Range,
    sync::{Arc, PoisonError, RwLock},
};

use memchr::{memchr, memmem};

use super::credential_name::{HEADER, suggests_credential};

mod cut;

/// Shortest value in bytes that is masked. Shorter ones, such as `true` and
/// `none`, occur in ordinary text.
const MIN_LENGTH: usize = 6;

/// Longest piece of a value that is searched for, in bytes. Longer values are
/// split into pieces.
pub(super) const MAX_LENGTH: usize = 4096;

/// Most credentials of an environment that are searched for. Environments have a few
/// hundred variables.
const MAX_SECRETS: usize = 256;

/// Most other values that are searched for, which is only done for bundles.
const MAX_VALUES: usize = 2048;

/// Most values that are read to find these. Several can be the same.
const MAX_READ: usize = 4096;

/// Most values that a request learns while it runs.
const MAX_LEARNED: usize = 16;

/// Replacement for a credential.
const MASK: &str = "***";

/// Credentials to mask. Without any values it still masks those in URLs.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Box<[u8]>>,
    /// True if there were too many values to search for all.
    is_partial: bool,
    /// Values that were not known at first.
    learned: Arc<RwLock<Vec<Box<[u8]>>>>,
}

impl Redactor {
    /// Returns a redactor that also masks credentials among these `NAME=VALUE`
    /// entries. It learns for itself.
    #[must_use]
    pub fn with<'e>(&self, entries: impl IntoIterator<Item = &'e [u8]>) -> Self {
        let credentials = entries.into_iter().filter_map(credential);
        Self { learned: Arc::default(), ..self.and(credentials, MAX_SECRETS) }
    }

    /// Returns a redactor that also masks these values. Both learn together.
    #[must_use]
    pub fn with_values<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        self.and(values, MAX_VALUES)
    }

    /// Adds values. Known ones always stay. If there are too many new ones, the first
    /// lines of all of them are kept before further lines of long ones.
    fn and<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>, most: usize) -> Self {
        let mut values = values.into_iter().map(pieces);
        let mut read: Vec<_> = values.by_ref().take(MAX_READ).collect();
        let mut known: HashSet<_> = self.secrets.iter().cloned().collect();
        let mut new = Vec::new();
        // A tenant chooses the values, so their length must not decide about the time.
        for _ in 0..=most {
            if new.len() > most {
                break;
            }
            read.retain_mut(|lines| {
                let Some(line) = lines.next() else { return false };
                if known.insert(line.clone()) {
                    new.push(line);
                }
                true
            });
        }
        let is_rest = !read.is_empty() || values.next().is_some();
        let is_partial = self.is_partial || new.len() > most || is_rest;
        new.truncate(most);
        let secrets = self.secrets.iter().cloned().chain(new).collect();
        Self { secrets, is_partial, learned: Arc::clone(&self.learned) }
    }

    /// False if there were too many values, so that some are not masked.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        !self.is_partial && learned.len() < MAX_LEARNED
    }

    /// Masks another value from now on, also in clones of this redactor. The oldest
    /// learned values are forgotten if there are too many.
    pub fn learn(&self, value: &[u8]) {
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces(value) {
            if !learned.contains(&piece) {
                learned.push(piece);
            }
        }
        let excess = learned.len().saturating_sub(MAX_LEARNED);
        learned.drain(..excess);
    }

    /// Returns the text with credentials masked.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Returns the bytes with credentials masked. The time is proportional to
    /// their number and to the number of known values.
    #[must_use]
    pub fn bytes(&self, text: &[u8]) -> Vec<u8> {
        self.bytes_from(0, text)
    }

    /// Returns the last `length` bytes with credentials masked. Only they and
    /// 4 KiB before them are searched: a credential that begins before
    /// them is masked too.
    #[must_use]
    pub fn end(&self, text: &[u8], length: usize) -> Vec<u8> {
        let from = text.len().saturating_sub(length + MAX_LENGTH);
        let searched = text.get(from..).unwrap_or_default();
        self.bytes_from(searched.len().saturating_sub(length), searched)
    }

    /// The bytes from this position on, with credentials masked that end behind it.
    fn bytes_from(&self, from: usize, text: &[u8]) -> Vec<u8> {
        masked(text, &self.spans(text), from..text.len())
    }

    /// Returns the positions of credentials, in order and without overlap.
    #[must_use]
    pub fn spans(&self, text: &[u8]) -> Vec<Range<usize>> {
        merged(self.found(text))
    }

    /// The positions of credentials, which may overlap.
    fn found(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = users(text);
        found.extend(ports(text));
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        let known = self.secrets.iter().chain(learned.iter()).map(AsRef::<[u8]>::as_ref);
        // Preparing to search for a long value takes longer than reading a short text.
        for secret in known.filter(|secret| secret.len() <= text.len()) {
            found.extend(memmem::find_iter(text, secret).map(|at| at..at + secret.len()));
        }
        found
    }
}

impl fmt::Debug for Redactor {
    /// Shows only how many values are known.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.secrets.len();
        formatter.debug_struct("Redactor").field("secrets", &known).finish_non_exhaustive()
    }
}

/// A part of a text, with the credentials at these positions masked that reach into it.
pub(super) fn masked(text: &[u8], spans: &[Range<usize>], part: Range<usize>) -> Vec<u8> {
    let mut shown = Vec::with_capacity(part.len());
    let mut at = part.start;
    let is_in_part = |span: &&Range<usize>| span.start < part.end && part.start < span.end;
    for Range { start, end } in spans.iter().filter(is_in_part) {
        shown.extend_from_slice(text.get(at..*start).unwrap_or_default());
        shown.extend_from_slice(MASK.as_bytes());
        at = *end;
    }
    shown.extend_from_slice(text.get(at..part.end).unwrap_or_default());
    shown
}

/// Orders positions and joins those that overlap.
fn merged(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|span| span.start);
    let mut spans: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for span in found {
        match spans.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            Some(_) | None => spans.push(span),
        }
    }
    spans
}

/// Returns the value of an entry if its name suggests a credential.
fn credential(entry: &[u8]) -> Option<&[u8]> {
    let (name, value) = entry.split_at_checked(memchr(b'=', entry)?)?;
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let value = value.get(1..).unwrap_or_default();
    // `Authorization: Bearer TOKEN`
    let last = || value.trim_ascii().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    suggests_credential(&name).then(|| if name.ends_with(HEADER) { last() } else { value })
}

/// Splits a value into the pieces to search for. Programs print values line by
/// line.
fn pieces(value: &[u8]) -> impl Iterator<Item = Box<[u8]>> {
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let pieces = lines.flat_map(|line| line.chunks(MAX_LENGTH));
    pieces.filter(|piece| piece.len() >= MIN_LENGTH).map(Into::into)
}

/// Returns the positions of user information in URLs: a password, or a token in
/// place of a user name.
fn users(text: &[u8]) -> Vec<Range<usize>> {
    // Not `'`: it may be part of a password (RFC 3986).
    let endpoints = |byte: &u8| byte.is_ascii_whitespace() || br#"/?#"<>`\"#.contains(byte);
    let mut word = Word::default();
    let user = |at: usize| {
        let start = at + SCHEME_END.len();
        let rest = text.get(start..)?;
        let authority = rest.get(..rest.iter().position(endpoints).unwrap_or(rest.len()))?;
        let end = match memchr::memrchr(b'@', authority) {
            Some(length) => start + length,
            None if is_unencoded(authority) => word.last_at_sign(text, start)?,
            None => return None,
        };
        let user = text.get(start..end)?;
        // `ssh://git@host` has no secret; ssh authenticates with a key.
        let is_ssh = text.get(..at)?.ends_with(b"ssh") && memchr(b':', user).is_none();
        (!user.is_empty() && !is_ssh).then_some(start..end)
    };
    memmem::find_iter(text, SCHEME_END).filter_map(user).collect()
}

/// True if this may be the beginning of user information with a password that should be
/// encoded, because it has one of `/?#`: the port is no number then.
fn is_unencoded(authority: &[u8]) -> bool {
    let port = memchr::memrchr(b':', authority).and_then(|colon| authority.get(colon + 1..));
    let has_other = |port: &[u8]| !port.iter().all(u8::is_ascii_digit);
    !authority.starts_with(b"[") && port.is_some_and(has_other)
}

/// The word that was searched last. Many URLs can be in one word, and it is searched once.
#[derive(Debug, Default)]
struct Word {
    end: usize,
    last_at_sign: Option<usize>,
}

impl Word {
    /// Position of the last `@` between `start` and the end of its word. `start` only grows
    /// from call to call.
    fn last_at_sign(&mut self, text: &[u8], start: usize) -> Option<usize> {
        if start >= self.end {
            let ends = |byte: &u8| byte.is_ascii_whitespace() || br#""<>`\"#.contains(byte);
            let rest = text.get(start..)?;
            let word = rest.get(..rest.iter().position(ends).unwrap_or(rest.len()))?;
            self.end = start + word.len();
            self.last_at_sign = memchr::memrchr(b'@', word).map(|at| start + at);
        }
        self.last_at_sign.filter(|at| *at >= start)
    }
}

/// The positions of what Go took for a port, which is a part of such a password.
fn ports(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    memmem::find_iter(text, NO_PORT).filter_map(|at| {
        let start = at + NO_PORT.len();
        let length = memchr(b'"', text.get(start..)?)?;
        (length > 0).then_some(start..start + length)
    })
}

const SCHEME_END: &[u8] = b"://";

/// The beginning of an error of Go about a URL.
const NO_PORT: &[u8] = b"invalid port \":";

#[cfg(test)]
mod tests;
