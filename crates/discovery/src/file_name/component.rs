//! One component of a `fileName`, with the rules of Go's `filepath.Match`.

use super::super::cursor::Cursor;
use super::super::rune;
use super::super::steps::{Exhausted, Steps};

/// A component: one name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Component {
    Literal(String),
    Pattern(Vec<Chunk>),
}

/// A sequence of characters. After a `*`, it may be found anywhere in the rest
/// of the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    after_star: bool,
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// One byte of a literal. Go compares literals byte by byte.
    Byte(u8),
    AnyCharacter,
    /// Ranges are inclusive. A range whose end is before its start is empty.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// The error for an invalid component. `offset` is the byte in the component
/// where the invalid part starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) offset: usize,
}

impl Component {
    /// Compiles one component. `text` must not contain `/`.
    pub(super) fn new(text: &str) -> Result<Self, SyntaxError> {
        if !text.contains(['*', '?', '[', '\\']) {
            return Ok(Self::Literal(text.to_owned()));
        }
        let mut cursor = Cursor { text, at: 0 };
        let mut chunks = Vec::new();
        while cursor.peek().is_some() {
            chunks.push(chunk(&mut cursor)?);
        }
        Ok(Self::Pattern(chunks))
    }

    /// The component matches `name`.
    pub(super) fn matches(&self, name: &[u8], steps: &mut Steps<'_>) -> Result<bool, Exhausted> {
        let chunks = match self {
            Self::Literal(text) => return Ok(text.as_bytes() == name),
            Self::Pattern(chunks) => chunks,
        };
        let mut rest = name;
        let mut ahead = chunks.iter().peekable();
        while let Some(chunk) = ahead.next() {
            let is_last = ahead.peek().is_none();
            let Some(after) = chunk.find(rest, is_last, steps)? else {
                return Ok(false);
            };
            rest = after;
        }
        Ok(rest.is_empty())
    }
}

impl Chunk {
    /// The rest of the name after the first place where this chunk is found. As
    /// in Go, a later place is never tried, which keeps the work quadratic. A
    /// `*` matches bytes, not characters.
    fn find<'a>(
        &self,
        name: &'a [u8],
        is_last: bool,
        steps: &mut Steps<'_>,
    ) -> Result<Option<&'a [u8]>, Exhausted> {
        if self.after_star && self.items.is_empty() {
            return Ok(Some(b""));
        }
        let skips = if self.after_star { name.len() } else { 0 };
        for skip in 0..=skips {
            let after = name.get(skip..).unwrap_or_default();
            let found = self.strip(after, steps)?;
            if let Some(rest) = found.filter(|rest| rest.is_empty() || !is_last) {
                return Ok(Some(rest));
            }
        }
        Ok(None)
    }

    fn strip<'a>(
        &self,
        name: &'a [u8],
        steps: &mut Steps<'_>,
    ) -> Result<Option<&'a [u8]>, Exhausted> {
        let mut rest = name;
        for item in &self.items {
            steps.take(1)?;
            let Some(width) = item.width_in(rest) else {
                return Ok(None);
            };
            rest = rest.get(width..).unwrap_or_default();
        }
        Ok(Some(rest))
    }
}

impl Item {
    /// Number of bytes at the start of `name` that the item matches.
    fn width_in(&self, name: &[u8]) -> Option<usize> {
        match self {
            Self::Byte(byte) => (name.first() == Some(byte)).then_some(1),
            Self::AnyCharacter => rune::decode(name).map(|(_, width)| width),
            Self::Class { negated, ranges } => {
                let (character, width) = rune::decode(name)?;
                let inside = ranges.iter().any(|&(low, high)| (low..=high).contains(&character));
                (inside != *negated).then_some(width)
            }
        }
    }
}

fn chunk(cursor: &mut Cursor<'_>) -> Result<Chunk, SyntaxError> {
    let mut after_star = false;
    while cursor.skip_if('*') {
        after_star = true;
    }
    let mut items = Vec::new();
    while let Some(character) = cursor.peek().filter(|&character| character != '*') {
        let offset = cursor.at;
        cursor.at += character.len_utf8();
        match character {
            '[' => items.push(class(cursor, offset)?),
            '?' => items.push(Item::AnyCharacter),
            '\\' => {
                let escaped = cursor.next().ok_or(SyntaxError { offset })?;
                push_bytes(&mut items, escaped);
            }
            literal => push_bytes(&mut items, literal),
        }
    }
    Ok(Chunk { after_star, items })
}

/// Reads a class. Its `[` is at `offset`.
fn class(cursor: &mut Cursor<'_>, offset: usize) -> Result<Item, SyntaxError> {
    let negated = cursor.skip_if('^');
    let mut ranges = Vec::new();
    while ranges.is_empty() || !cursor.skip_if(']') {
        let low = class_end(cursor, offset)?;
        let high = if cursor.skip_if('-') { class_end(cursor, offset)? } else { low };
        ranges.push((low, high));
    }
    Ok(Item::Class { negated, ranges })
}

/// Reads a character of a class. `-` and `]` need a `\`.
fn class_end(cursor: &mut Cursor<'_>, offset: usize) -> Result<char, SyntaxError> {
    let character = match cursor.next() {
        Some('\\') => cursor.next(),
        Some('-' | ']') => None,
        other => other,
    };
    character.ok_or(SyntaxError { offset })
}

fn push_bytes(items: &mut Vec<Item>, literal: char) {
    let mut buffer = [0; 4];
    items.extend(literal.encode_utf8(&mut buffer).bytes().map(Item::Byte));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &[u8]) -> bool {
        let component = Component::new(pattern).unwrap();
        component.matches(name, &mut Steps::all(&|| true)).unwrap()
    }

    #[test]
    fn names_match_as_in_go() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", ".hidden", true),
            ("a*", "a", true),
            ("*c", "abc", true),
            ("*b", "abab", true),
            ("*ab*ab", "abxabxab", true),
            ("a?c", "aéc", true),
            ("a*b*c*d*e*f", "axbxcxdxexxf", true),
            ("a*b*c*d*e*f", "axbxcxdxexffg", false),
            ("a*b?c*x", "abxbbxdbxebxczzy", false),
            ("[c-a]", "b", false),
            ("[a-ζ]*", "α", true),
            ("[\\]a]", "]", true),
            ("[\\-x]", "-", true),
            ("[^x-z]", "x", false),
            ("[!x]", "y", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("é", "é", true),
            ("{a,b}", "a", false),
        ] {
            assert_eq!(matches(pattern, name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_star_matches_bytes() {
        assert!(matches("*??", "€".as_bytes()), "two of its three bytes are left");
        assert!(matches("[^a]", b"\xFF"));
        assert!(matches("[\u{FFFD}]", b"\xFF"));
    }

    #[test]
    fn an_invalid_class_or_escape_is_reported_at_its_start() {
        for (pattern, offset) in [
            ("[", 0),
            ("ab[", 2),
            ("*[]a]", 1),
            ("[-x]", 0),
            ("x[a-]", 1),
            ("[a-b-c]", 0),
            ("[^]", 0),
            ("é\\", 2),
            ("[\\", 0),
            ("[a*b", 0),
        ] {
            assert_eq!(Component::new(pattern), Err(SyntaxError { offset }), "{pattern}");
        }
    }

    #[test]
    fn many_stars_need_quadratic_work_at_most() {
        let pattern = Component::new(&format!("{}b", "*a".repeat(100))).unwrap();
        let mut steps = Steps::at_most(30_000, &|| true);
        assert_eq!(pattern.matches(&[b'a'; 255], &mut steps), Ok(false));
    }
}
