//! Prints a command line as Argo CD does.

use std::fmt::Write;

/// Joins words with blanks. A word with white space is quoted as a Go string,
/// and an empty word is printed as `""`.
pub(super) fn command_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        if word.is_empty() || word.contains(char::is_whitespace) {
            quote(word, &mut line);
        } else {
            line.push_str(word);
        }
    }
    line
}

fn quote(word: &str, line: &mut String) {
    line.push('"');
    for character in word.chars() {
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            '\u{7}' => line.push_str("\\a"),
            '\u{8}' => line.push_str("\\b"),
            '\u{c}' => line.push_str("\\f"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\u{b}' => line.push_str("\\v"),
            ' ' => line.push(' '),
            other if other.is_control() || other.is_whitespace() => escape(other, line),
            other => line.push(other),
        }
    }
    line.push('"');
}

fn escape(character: char, line: &mut String) {
    let code = u32::from(character);
    // Writing to a String cannot fail.
    let _ = match code {
        0..0x80 => write!(line, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(line, "\\u{code:04x}"),
        _ => write!(line, "\\U{code:08x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_white_space_are_quoted_as_go_does() {
        for (words, line) in [
            (&["helm", "template", "."][..], "helm template ."),
            (&["sh", "-c", "eval \"$SCRIPT\""], r#"sh -c "eval \"$SCRIPT\"""#),
            (&["a", "", "c\"d"], r#"a "" c"d"#),
            (&["a\tb\nc\\"], r#""a\tb\nc\\""#),
            (&["\u{1} \u{85}\u{2028}"], r#""\x01 \u0085\u2028""#),
        ] {
            assert_eq!(command_line(words.iter().copied()), line);
        }
    }
}
