//! Texts on standard output, and texts of others on a terminal.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, ErrorKind, Write},
};

/// Characters that change the direction of a text, so that it shows other words than it has.
const DIRECTIONS: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Writes a result to standard output. A closed pipe is no error.
pub fn print(text: &str) -> io::Result<()> {
    unless_closed(io::stdout().lock().write_all(text.as_bytes()))
}

/// The result of writing to standard output. A closed pipe is no error.
pub fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes to standard error. If that fails, nothing can report it.
pub fn tell(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The text without characters that control a terminal. Line breaks and tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\t');
    if text.contains(is_bad) { text.replace(is_bad, "\u{fffd}").into() } else { text.into() }
}

/// The text in one line, without characters that control a terminal.
#[must_use]
pub fn printable_line(text: &str) -> String {
    text.replace(is_unsafe, "\u{fffd}")
}

/// A JSON text with escapes for such characters, and a line break at its end. JSON has no
/// others outside of strings than line breaks, so its values stay the same.
#[must_use]
pub fn printable_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if is_unsafe(character) && !matches!(character, '\n' | '\t') {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped.push('\n');
    escaped
}

/// True for characters that control a terminal, line breaks and tabs among them.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control() || DIRECTIONS.contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_the_terminal() {
        for (text, expected) in [
            ("a\tb\nü", "a\tb\nü"),
            ("\u{1b}[31mred\u{7}", "\u{fffd}[31mred\u{fffd}"),
            ("\u{9b}1m\r\u{7f}", "\u{fffd}1m\u{fffd}\u{fffd}"),
            ("p\u{202e}q", "p\u{fffd}q"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn a_line_has_no_breaks() {
        assert_eq!(printable_line("a\u{1b}[m\u{202e}b\n"), "a\u{fffd}[m\u{fffd}b\u{fffd}");
    }

    #[test]
    fn json_has_escapes_and_keeps_its_values() {
        let value = serde_json::json!({"a": "ü\u{9b}1m\u{7f}\u{202e}\u{1b}\n"});
        let text = format!("{value:#}");
        let printed = printable_json(&text);
        assert!(printed.contains(r"ü\u009b1m\u007f\u202e\u001b\n"), "{printed}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
