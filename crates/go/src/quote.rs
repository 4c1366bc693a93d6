//! `strconv.Quote`, and the quotes of a byte in errors of `encoding/json`.

use std::fmt::Write;

/// Appends `text` to `out` in double quotes. Characters that Go does not print
/// are escaped.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    text.chars().for_each(|character| escape(character, out));
    out.push('"');
}

/// A byte as errors of `encoding/json` show it: in single quotes, as the character with
/// its number.
#[must_use]
pub fn quote_byte(byte: u8) -> String {
    let mut quoted = "'".to_owned();
    match byte {
        b'\'' => quoted.push_str(r"\'"),
        b'"' => quoted.push('"'),
        _ => escape(char::from(byte), &mut quoted),
    }
    quoted.push('\'');
    quoted
}

/// Appends a character of a text in double quotes.
fn escape(character: char, out: &mut String) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match character {
        '"' | '\\' => write!(out, "\\{character}"),
        '\x07' => write!(out, "\\a"),
        '\x08' => write!(out, "\\b"),
        '\x0C' => write!(out, "\\f"),
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        '\x0B' => write!(out, "\\v"),
        '\0'..='\x1F' | '\x7F' => write!(out, "\\x{code:02x}"),
        _ if is_printed(character) => write!(out, "{character}"),
        '\u{80}'..='\u{FFFF}' => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Printable by `strconv.IsPrint`, approximately: Go prints visible characters and, of all white space, only the ASCII space.
fn is_printed(character: char) -> bool {
    let is_invisible = character.is_whitespace()
        || character.is_control()
        || matches!(character, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{E000}'..='\u{F8FF}' | '\u{FEFF}' | '\u{FFF0}'..='\u{FFFB}' | '\u{F_0000}'..);
    character == ' ' || !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_as_in_go() {
        for (text, quoted) in [
            ("eval \"$SCRIPT\"", r#""eval \"$SCRIPT\"""#),
            ("a\tb\nc\\", r#""a\tb\nc\\""#),
            ("\u{1} \u{7f}\u{85}\u{2028}", r#""\x01 \x7f\u0085\u2028""#),
            ("é😀", "\"é😀\""),
            ("\u{AD}\u{F_0000}", r#""\u00ad\U000f0000""#),
        ] {
            let mut out = String::new();
            quote(text, &mut out);
            assert_eq!(out, quoted);
        }
    }

    #[test]
    fn a_byte_is_shown_as_a_character_in_single_quotes() {
        for (byte, quoted) in [
            (b'a', "'a'"),
            (b'\'', r"'\''"),
            (b'"', "'\"'"),
            (b'\\', r"'\\'"),
            (0x0B, r"'\v'"),
            (0x7F, r"'\x7f'"),
            (0xA0, r"'\u00a0'"),
            (0xAD, r"'\u00ad'"),
            (0xEF, "'ï'"),
        ] {
            assert_eq!(quote_byte(byte), quoted);
        }
    }
}
