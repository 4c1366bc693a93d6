//! Splits a text into YAML documents.

use std::ops::Range;

/// The byte ranges of the documents of a text.
///
/// A line that starts with `---` or `...` always separates documents, so an
/// invalid document does not hide the others.
pub(crate) fn split(text: &[u8]) -> Vec<Range<usize>> {
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

/// Content found since the last document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Nothing,
    /// Only directives, which belong to the next document.
    Directive,
    Document,
}

enum Line {
    Separator,
    End,
    Directive,
    Text,
    /// An empty line or a comment.
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
    fn empty_text_and_comments_are_not_documents() {
        assert!(texts("").is_empty() && texts("# only\n\n  # this\n").is_empty());
        assert_eq!(texts("a: 1\n...\n# the end\n"), ["a: 1\n...\n"]);
    }

    #[test]
    fn only_a_line_of_three_dashes_separates() {
        assert_eq!(texts("a: |\n  ---\n  b\n---x\n").len(), 1);
        assert_eq!(texts("a\r\n---\r\nb\r\n").len(), 2);
    }
}
