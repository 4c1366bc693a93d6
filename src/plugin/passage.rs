//! Maps a text inside a file, such as a YAML scalar, to lines and columns of the
//! file.

use std::ops::Range;

use cmp_yaml::{Style, tree::Node};

use super::diagnostic::Region;

/// The text of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'f>(pub(super) &'f [u8]);

impl File<'_> {
    /// Converts byte offsets to a line and columns. The region ends at the end of
    /// its first line.
    pub(super) fn region(self, start: usize, end: usize) -> Region {
        let text = self.0;
        let start = start.min(text.len());
        let line_start = memchr::memrchr(b'\n', &text[..start]).map_or(0, |at| at + 1);
        let line_end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
        let shown = text[start..line_end.min(end.max(start))].trim_ascii_end();
        let line_text = &text[line_start..start];
        let line_text = if line_start == 0 { without_mark(line_text) } else { line_text };
        let column = characters(line_text) + 1;
        let line = memchr::memchr_iter(b'\n', &text[..start]).count() + 1;
        Region { line, column, end_column: column + characters(shown).max(1) }
    }
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&byte| byte & 0xC0 != 0x80).count()
}

/// Maps byte offsets of an inner text to offsets of the outer text.
#[derive(Clone, Debug)]
pub(super) enum Map {
    /// Pairs of an inner and an outer offset; each holds up to the next pair.
    Pieces(Vec<(usize, usize)>),
    /// Only the offsets of the whole text are known.
    Whole { start: usize, end: usize },
}

impl Map {
    /// The map of a text that is the file itself.
    pub(super) fn identity() -> Self {
        Self::Pieces(vec![(0, 0)])
    }

    /// The map from a scalar's text to its document.
    pub(super) fn of(scalar: Node<'_>, document: &[u8]) -> Self {
        let Range { start, end } = scalar.range();
        let end = end.min(document.len());
        let value = scalar.text().unwrap_or_default();
        let source = document.get(start..end).unwrap_or_default();
        let pieces = match scalar.style() {
            Some(Style::Literal) => literal(value, source),
            Some(Style::DoubleQuoted) => double_quoted(source),
            Some(Style::SingleQuoted) => same(value, source, 1),
            Some(Style::Plain) => same(value, source, 0),
            Some(Style::Folded) | None => None,
        };
        let shift = |pieces: Vec<(usize, usize)>| {
            pieces.into_iter().map(|(from, to)| (from, start + to)).collect()
        };
        pieces.map_or(Self::Whole { start, end }, |pieces| Self::Pieces(shift(pieces)))
    }

    /// Converts a range of the inner text to a range of the outer text.
    fn outside(&self, start: usize, end: usize) -> (usize, usize) {
        match self {
            Self::Whole { start, end } => (*start, *end),
            Self::Pieces(pieces) => {
                let place = |offset: usize| {
                    let next = pieces.partition_point(|(from, _)| *from <= offset);
                    let piece = next.checked_sub(1).and_then(|last| pieces.get(last));
                    piece.map_or(offset, |(from, to)| to + (offset - from))
                };
                // The end is computed from the last byte, because the next piece can be
                // far away.
                (place(start), place(end.max(start + 1) - 1) + 1)
            }
        }
    }

    /// Joins two maps: inner to middle, and middle to `outer`.
    pub(super) fn within(self, base: usize, outer: &Self) -> Self {
        let lift = |start: usize, end: usize| outer.outside(base + start, base + end);
        match self {
            Self::Whole { start, end } => {
                let (start, end) = lift(start, end);
                Self::Whole { start, end }
            }
            Self::Pieces(pieces) => match outer {
                Self::Whole { start, end } => Self::Whole { start: *start, end: *end },
                Self::Pieces(_) => Self::Pieces(
                    pieces.into_iter().map(|(from, to)| (from, lift(to, to + 1).0)).collect(),
                ),
            },
        }
    }
}

/// Pieces of a literal block: each line is the end of a line of the document.
fn literal(value: &str, source: &[u8]) -> Option<Vec<(usize, usize)>> {
    let mut lines = source.split_inclusive(|&byte| byte == b'\n');
    let mut to = lines.next()?.len();
    let (mut from, mut pieces) = (0, Vec::new());
    for line in value.split_inclusive('\n') {
        let written = lines.next()?;
        let text = line.trim_end_matches('\n').as_bytes();
        let bare = written.strip_suffix(b"\n").unwrap_or(written);
        let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
        let indent = bare.strip_suffix(text)?.len();
        pieces.push((from, to + indent));
        from += line.len();
        to += written.len();
    }
    Some(pieces)
}

/// The piece of a text without escapes, after `quotes` bytes.
fn same(value: &str, source: &[u8], quotes: usize) -> Option<Vec<(usize, usize)>> {
    let written = source.get(quotes..quotes + value.len())?;
    (written == value.as_bytes()).then(|| vec![(0, quotes)])
}

/// Pieces of a double-quoted text on one line, as in JSON: a new piece begins
/// after each escape.
fn double_quoted(source: &[u8]) -> Option<Vec<(usize, usize)>> {
    let source = source.trim_ascii_end();
    let inner = source.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\n', inner).is_some() {
        return None;
    }
    let (mut from, mut at, mut pieces) = (0, 0, vec![(0, 1)]);
    while let Some(step) = memchr::memchr(b'\\', &inner[at..]) {
        from += step;
        at += step;
        let (written, meant) = escape(&inner[at..])?;
        from += meant;
        at += written;
        pieces.push((from, at + 1));
    }
    Some(pieces)
}

/// Bytes of an escape as written, and of the character that it stands for.
fn escape(text: &[u8]) -> Option<(usize, usize)> {
    let digits = |count: usize| {
        let digits = std::str::from_utf8(text.get(2..2 + count)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let character = |code: u32| char::from_u32(code).map_or(3, char::len_utf8);
    Some(match text.get(1)? {
        b'x' => (4, character(digits(2)?)),
        b'u' => (6, character(digits(4)?)),
        b'U' => (10, character(digits(8)?)),
        b'N' | b'_' => (2, 2),
        b'L' | b'P' => (2, 3),
        _ => (2, 1),
    })
}

/// A text that is parsed by itself.
#[derive(Clone, Debug)]
pub(super) struct Passage<'p> {
    pub(super) text: &'p [u8],
    /// Offset of `text` in the inner text of `map`.
    pub(super) base: usize,
    pub(super) map: &'p Map,
    pub(super) file: File<'p>,
}

impl Passage<'_> {
    /// The region of a part of the text in the file.
    pub(super) fn region(&self, start: usize, end: usize) -> Region {
        let (start, end) = self.map.outside(self.base + start, self.base + end);
        self.file.region(start, end)
    }

    /// The line of the text that contains an offset.
    pub(super) fn line(&self, offset: usize) -> &[u8] {
        let offset = offset.min(self.text.len());
        let start = memchr::memrchr(b'\n', &self.text[..offset]).map_or(0, |at| at + 1);
        let end = memchr::memchr(b'\n', &self.text[offset..]);
        &self.text[start..end.map_or(self.text.len(), |at| offset + at)]
    }

    /// The map from one of its scalars to the file.
    pub(super) fn map_of(&self, scalar: Node<'_>) -> Map {
        Map::of(scalar, self.text).within(self.base, self.map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Region of `needle` in the value of `key`.
    fn found(document: &str, needle: &str) -> String {
        let tree = cmp_yaml::tree(document.as_bytes()).unwrap().unwrap();
        let node = tree.root().get("key").unwrap();
        let map = Map::of(node, document.as_bytes());
        let at = node.text().unwrap().find(needle).unwrap();
        let (start, end) = map.outside(at, at + needle.len());
        let region = File(document.as_bytes()).region(start, end);
        format!("{region}-{}", region.end_column)
    }

    #[test]
    fn literal_blocks_are_mapped_line_by_line() {
        assert_eq!(found("key: |\n  one\n    two\n\n  tree\n", "two"), "3:5-8");
        assert_eq!(found("key: |-\n\n   one\n   ünï tree", "tree"), "4:8-12");
        assert_eq!(found("key: |2 # why\n    one\n  tree\n", "tree"), "3:3-7");
        assert_eq!(found("key: |\r\n  one\r\n  tree\r\n", "tree"), "3:3-7");
    }

    #[test]
    fn quoted_text_is_mapped_across_escapes() {
        assert_eq!(found(r#"{"key": "a\n\u00e9 tree"}"#, "tree"), "1:20-24");
        assert_eq!(found("key: 'a tree'", "tree"), "1:9-13");
        assert_eq!(found("key: a tree", "tree"), "1:8-12");
    }

    #[test]
    fn rearranged_text_is_mapped_as_a_whole() {
        assert_eq!(found("key: >\n  one\n  tree\n", "tree"), "1:6-7");
        assert_eq!(found("key: 'it''s a tree'", "tree"), "1:6-20");
    }

    #[test]
    fn a_region_ends_with_its_line() {
        let file = File("\u{feff}a: ü  \nb\n".as_bytes());
        assert_eq!(file.region(6, 13), Region { line: 1, column: 4, end_column: 5 });
        assert_eq!(file.region(999, 0).line, 3);
    }
}
