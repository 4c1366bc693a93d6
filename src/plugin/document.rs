//! Where the documents of a text are.

use std::ops::Range;

/// The documents of a text, from one separator to the next.
///
/// A line that starts with `---` or `...` can be nothing else in YAML, whatever
/// is around it. So one document that is broken hides no other.
pub(super) fn split(text: &[u8]) -> Vec<Range<usize>> {
    let mut documents = Vec::new();
    let (mut start, mut at, mut content) = (0, 0, Content::Nothing);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let end = at + line.len();
        match Line::of(line, at == 0) {
            Line::Separator => {
                if content == Content::Document {
                    documents.push(start..at);
                    start = at;
                }
                content = Content::Document;
            }
            Line::End => {
                if content != Content::Nothing {
                    documents.push(start..end);
                }
                (start, content) = (end, Content::Nothing);
            }
            Line::Directive => content = content.max(Content::Directive),
            Line::Text => content = Content::Document,
            Line::Blank => {}
        }
        at = end;
    }
    if content != Content::Nothing {
        documents.push(start..text.len());
    }
    documents
}

/// What there is since the last document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Nothing,
    /// Belongs to the document that has to follow.
    Directive,
    Document,
}

enum Line {
    Separator,
    End,
    Directive,
    Text,
    /// Nothing, or a comment.
    Blank,
}

impl Line {
    fn of(line: &[u8], is_first: bool) -> Self {
        let line = if is_first { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        let is_marker = |marker: &[u8]| {
            let rest = line.strip_prefix(marker);
            rest.is_some_and(|rest| matches!(rest, [] | [b' ' | b'\t' | b'\r' | b'\n', ..]))
        };
        match line.trim_ascii_start() {
            [] | [b'#', ..] => Self::Blank,
            _ if is_marker(b"---") => Self::Separator,
            _ if is_marker(b"...") => Self::End,
            _ if line.starts_with(b"%") => Self::Directive,
            _ => Self::Text,
        }
    }
}

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text.as_bytes()).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_separator_belongs_to_what_follows_it() {
        assert_eq!(texts("a: 1\n---\nb: 2\n"), ["a: 1\n", "---\nb: 2\n"]);
        assert_eq!(texts("# head\n---\na: 1\n"), ["# head\n---\na: 1\n"]);
        assert_eq!(texts("\u{feff}---\na: 1\n--- {b: 2}"), ["\u{feff}---\na: 1\n", "--- {b: 2}"]);
    }

    #[test]
    fn a_directive_belongs_to_what_follows_it() {
        let text = "%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n";
        let expected = ["%YAML 1.1\n---\na: 1\n...\n", "%YAML 1.1\n---\nb: 2\n"];
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn nothing_and_comments_are_no_document() {
        assert!(texts("").is_empty() && texts("# only\n\n  # this\n").is_empty());
        assert_eq!(texts("a: 1\n...\n# the end\n"), ["a: 1\n...\n"]);
    }

    #[test]
    fn dashes_separate_only_at_the_start_of_a_line_and_by_themselves() {
        assert_eq!(texts("a: |\n  ---\n  b\n---x\n").len(), 1);
        assert_eq!(texts("a\r\n---\r\nb\r\n").len(), 2);
    }
}
