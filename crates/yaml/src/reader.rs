//! Decodes bytes to the characters that YAML allows.

mod utf16;
mod utf8;

use std::borrow::Cow;

use super::{error::Error, offset::MAX_DOCUMENT_BYTES, place::Place};

/// Bytes that go-yaml reads at once. It reports a bad character as soon as the
/// scanner needs any character of the same window, and never for a window that
/// the scanner does not reach.
const WINDOW: usize = 512;

/// A document as UTF-8, up to the first character that is not allowed.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// The text for the scanner. It is complete unless `fault` is set.
    pub(super) text: Cow<'a, [u8]>,
    /// Length in bytes of the byte order mark before `text`. Places do not count it.
    pub(super) skipped: usize,
    /// There may be line breaks other than LF.
    pub(super) has_rare_breaks: bool,
    /// The error for a scanner that reads to the end of `text`.
    pub(super) fault: Option<Error>,
}

/// The document as UTF-8. UTF-16 is decoded; invalid UTF-16 stays unchanged.
pub(super) fn utf8(document: &[u8]) -> Cow<'_, [u8]> {
    let decoded = match document {
        [0xFF, 0xFE, rest @ ..] => utf16::decode(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16::decode(rest, u16::from_be_bytes),
        _ => return Cow::Borrowed(document),
    };
    match decoded {
        (text, None) => Cow::Owned(text),
        (_, Some(_)) => Cow::Borrowed(document),
    }
}

/// A character that is not allowed.
struct Fault {
    offset: usize,
    problem: &'static str,
}

impl<'a> Source<'a> {
    /// Detects the encoding by the byte order mark and checks every character.
    pub(super) fn new(document: &'a [u8]) -> Result<Self, Error> {
        if document.len() > MAX_DOCUMENT_BYTES {
            let text = format!("the document has more than {MAX_DOCUMENT_BYTES} bytes");
            return Err(Error::limit(text));
        }
        Ok(match document {
            [0xFF, 0xFE, rest @ ..] => Self::from_utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => Self::from_utf16(rest, u16::from_be_bytes),
            [0xEF, 0xBB, 0xBF, rest @ ..] => Self::from_utf8(rest, 3),
            _ => Self::from_utf8(document, 0),
        })
    }

    fn from_utf8(text: &'a [u8], skipped: usize) -> Self {
        let (fault, has_wide_breaks) = utf8::check(text);
        let has_rare_breaks = has_wide_breaks || memchr::memchr(b'\r', text).is_some();
        let Some(fault) = fault else {
            return Self { text: Cow::Borrowed(text), skipped, has_rare_breaks, fault: None };
        };
        let readable = if fault.problem == utf8::INCOMPLETE {
            fault.offset
        } else {
            window_start(text, skipped, fault.offset)
        };
        let place = Place::new(fault.offset, lines(&text[..fault.offset]));
        let error = Error::reader(fault.problem, place);
        let text = Cow::Borrowed(&text[..readable]);
        Self { text, skipped, has_rare_breaks, fault: Some(error) }
    }

    fn from_utf16(units: &'a [u8], unit: fn([u8; 2]) -> u16) -> Self {
        let (text, fault) = utf16::decode(units, unit);
        let fault = fault.map(|fault| {
            let place = Place::new(fault.offset + 2, lines(&text));
            Error::reader(fault.problem, place)
        });
        Self { text: Cow::Owned(text), skipped: 0, has_rare_breaks: true, fault }
    }
}

/// Start of the window in which go-yaml finds the character at `offset`. A
/// character that crosses a window's end belongs to the next window.
fn window_start(text: &[u8], skipped: usize, offset: usize) -> usize {
    let mut start = 0;
    let mut size = WINDOW - skipped;
    loop {
        let mut end = start + size;
        if let Some(lead) =
            (1..4).find(|back| text.get(end - back).is_some_and(|b| b & 0xC0 != 0x80))
            && utf8::width(text[end - lead]).is_some_and(|width| width > lead)
        {
            end -= lead;
        }
        if offset < end {
            return start;
        }
        (start, size) = (end, WINDOW);
    }
}

fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// YAML 1.1 allows the character in a document.
fn is_allowed(character: u32) -> bool {
    matches!(character,
        0x09 | 0x0A | 0x0D | 0x20..=0x7E | 0x85 | 0xA0..=0xD7FF | 0xE000..=0xFFFD | 0x1_0000..=0x10_FFFF)
}
