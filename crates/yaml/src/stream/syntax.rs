//! A JSON scanner with the rules and error texts of Go's `encoding/json`.

use std::ops::Range;

use cmp_go::quote_byte;

use super::MAX_JSON_DEPTH;

/// The reason why a text is not JSON.
#[derive(Debug)]
pub(super) enum Syntax {
    /// A byte that is not allowed at this point.
    Invalid { offset: usize, byte: u8, context: &'static str },
    /// The text ends too early, perhaps in a token, whose context this is.
    UnexpectedEnd { context: Option<&'static str> },
}

impl Syntax {
    /// The error text of Go's `Decoder`. Argo CD adds the offset only to the first value's
    /// error.
    pub(super) fn text(&self, with_offset: bool) -> String {
        match self {
            Self::UnexpectedEnd { .. } => "unexpected EOF".to_owned(),
            Self::Invalid { offset, byte, context } => {
                let text = invalid(*byte, context);
                if with_offset { format!("json: offset {}: {text}", offset + 1) } else { text }
            }
        }
    }

    /// The error text of Go's `Unmarshal`, which takes the end of a token for a space.
    fn of_whole(&self) -> String {
        match self {
            Self::Invalid { byte, context, .. } => invalid(*byte, context),
            Self::UnexpectedEnd { context: Some(context) } => invalid(b' ', context),
            Self::UnexpectedEnd { context: None } => "unexpected end of JSON input".to_owned(),
        }
    }
}

/// Go's text for an unexpected byte.
fn invalid(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quote_byte(byte))
}

/// Checks that a text is one JSON value, as Go's `Unmarshal` does. The error is Go's text.
pub fn check_json(text: &[u8]) -> Result<(), String> {
    let value = value(text, 0).map_err(|error| error.of_whole())?;
    let end = value.ok_or_else(|| Syntax::UnexpectedEnd { context: None }.of_whole())?.end;
    let mut scan = Scan { text, at: end, open: Vec::new() };
    scan.skip_space();
    match text.get(scan.at) {
        None => Ok(()),
        Some(byte) => Err(invalid(*byte, "after top-level value")),
    }
}

/// Range of the first value from `start` on. `None` if only white space
/// follows.
pub(super) fn value(text: &[u8], start: usize) -> Result<Option<Range<usize>>, Syntax> {
    let mut scan = Scan { text, at: start, open: Vec::new() };
    scan.skip_space();
    if scan.at == text.len() {
        return Ok(None);
    }
    let start = scan.at;
    scan.value()?;
    Ok(Some(start..scan.at))
}

/// The bracket that exceeds the nesting limit.
pub(super) fn too_deep(json: &[u8]) -> char {
    match value(json, 0) {
        Err(Syntax::Invalid { byte, .. }) => char::from(byte),
        Err(Syntax::UnexpectedEnd { .. }) | Ok(_) => '[',
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// The open brackets.
    open: Vec<u8>,
}

impl Scan<'_> {
    fn byte(&self) -> Result<u8, Syntax> {
        self.text.get(self.at).copied().ok_or(Syntax::UnexpectedEnd { context: None })
    }

    /// The next byte of a token with this context.
    fn byte_of(&self, context: &'static str) -> Result<u8, Syntax> {
        let end = Syntax::UnexpectedEnd { context: Some(context) };
        self.text.get(self.at).copied().ok_or(end)
    }

    fn invalid<T>(&self, context: &'static str) -> Result<T, Syntax> {
        let byte = self.byte_of(context)?;
        Err(Syntax::Invalid { offset: self.at, byte, context })
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Reads a complete value.
    fn value(&mut self) -> Result<(), Syntax> {
        loop {
            self.start_value()?;
            while self.end_value()? {
                if self.open.is_empty() {
                    return Ok(());
                }
            }
        }
    }

    /// Reads up to the end of the next scalar or empty collection.
    fn start_value(&mut self) -> Result<(), Syntax> {
        loop {
            self.skip_space();
            match self.byte()? {
                bracket @ (b'{' | b'[') => {
                    if self.open.len() == MAX_JSON_DEPTH {
                        return self.invalid("exceeded max depth");
                    }
                    self.open.push(bracket);
                    self.at += 1;
                    self.skip_space();
                    if matches!((bracket, self.byte()?), (b'{', b'}') | (b'[', b']')) {
                        return Ok(());
                    }
                    if bracket == b'{' {
                        self.key()?;
                    }
                }
                b'"' => return self.string(),
                b'-' | b'0'..=b'9' => return self.number(),
                b't' => return self.literal("true", TRUE),
                b'f' => return self.literal("false", FALSE),
                b'n' => return self.literal("null", NULL),
                _ => return self.invalid("looking for beginning of value"),
            }
        }
    }

    /// Reads the text after a value. Returns false if another value follows in
    /// the same collection.
    fn end_value(&mut self) -> Result<bool, Syntax> {
        let Some(&bracket) = self.open.last() else {
            return Ok(true);
        };
        self.skip_space();
        match (bracket, self.byte()?) {
            (b'{', b'}') | (b'[', b']') => {
                self.at += 1;
                self.open.pop();
                Ok(true)
            }
            (b'[', b',') => {
                self.at += 1;
                Ok(false)
            }
            (b'{', b',') => {
                self.at += 1;
                self.skip_space();
                self.key()?;
                Ok(false)
            }
            (b'[', _) => self.invalid("after array element"),
            _ => self.invalid("after object key:value pair"),
        }
    }

    fn key(&mut self) -> Result<(), Syntax> {
        if self.byte()? != b'"' {
            return self.invalid("looking for beginning of object key string");
        }
        self.string()?;
        self.skip_space();
        if self.byte()? != b':' {
            return self.invalid("after object key");
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Syntax> {
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let run = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            self.at += run.unwrap_or(rest.len());
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => return self.invalid("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Syntax> {
        self.at += 1;
        match self.byte_of(ESCAPE)? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.next_is(u8::is_ascii_hexdigit) {
                        return self.invalid("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
            }
            _ => return self.invalid(ESCAPE),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Syntax> {
        if self.byte()? == b'-' {
            self.at += 1;
        }
        if self.next_is(|byte| *byte == b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Reads at least one digit.
    fn digits(&mut self, context: &'static str) -> Result<(), Syntax> {
        if !self.next_is(u8::is_ascii_digit) {
            return self.invalid(context);
        }
        while self.next_is(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn next_is(&self, expected: impl FnOnce(&u8) -> bool) -> bool {
        self.text.get(self.at).is_some_and(expected)
    }

    fn literal(&mut self, name: &str, contexts: &[&'static str]) -> Result<(), Syntax> {
        for (byte, context) in name.bytes().zip(contexts) {
            if !self.next_is(|next| *next == byte) {
                return self.invalid(context);
            }
            self.at += 1;
        }
        Ok(())
    }
}

const ESCAPE: &str = "in string escape code";

const TRUE: &[&str] = &[
    "",
    "in literal true (expecting 'r')",
    "in literal true (expecting 'u')",
    "in literal true (expecting 'e')",
];
const FALSE: &[&str] = &[
    "",
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: &[&str] = &[
    "",
    "in literal null (expecting 'u')",
    "in literal null (expecting 'l')",
    "in literal null (expecting 'l')",
];

#[cfg(test)]
mod tests {
    use super::{MAX_JSON_DEPTH, check_json};

    /// Recorded from `encoding/json` of Go 1.26.
    const REFUSED: [(&[u8], &str); 38] = [
        (b"", "unexpected end of JSON input"),
        (b" ", "unexpected end of JSON input"),
        (b"[1", "unexpected end of JSON input"),
        (b"{\"a\"", "unexpected end of JSON input"),
        (b"\"abc", "unexpected end of JSON input"),
        (b"[}", "invalid character '}' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"\x0c[]", "invalid character '\\f' looking for beginning of value"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b"[\\]", "invalid character '\\\\' looking for beginning of value"),
        (b"[\x01]", "invalid character '\\x01' looking for beginning of value"),
        (b"\xef\xbb\xbf[]", "invalid character '\u{ef}' looking for beginning of value"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[\"a\"\"]", "invalid character '\"' after array element"),
        (b"{,", "invalid character ',' looking for beginning of object key string"),
        (b"{1", "invalid character '1' looking for beginning of object key string"),
        (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        (b"{\"a\" 1", "invalid character '1' after object key"),
        (b"{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
        (b"[] []", "invalid character '[' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"name: a", "invalid character 'a' in literal null (expecting 'u')"),
        (b"tru", "invalid character ' ' in literal true (expecting 'e')"),
        (b"falze", "invalid character 'z' in literal false (expecting 's')"),
        (b"- name: a", "invalid character ' ' in numeric literal"),
        (b"-", "invalid character ' ' in numeric literal"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.", "invalid character ' ' after decimal point in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1e", "invalid character ' ' in exponent of numeric literal"),
        (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
        (b"\"a\nb\"", "invalid character '\\n' in string literal"),
        (b"\"a\\", "invalid character ' ' in string escape code"),
        (b"\"a\\x", "invalid character 'x' in string escape code"),
        (b"\"a\\u12g", "invalid character 'g' in \\u hexadecimal character escape"),
        (b"\"a\\u1", "invalid character ' ' in \\u hexadecimal character escape"),
        (b"[\"\x7f\"x]", "invalid character 'x' after array element"),
    ];

    #[test]
    fn invalid_json_is_refused_with_gos_text() {
        for (text, expected) in REFUSED {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(check_json(text), Err(expected.to_owned()), "{shown}");
        }
        let deep = check_json(&b"[".repeat(MAX_JSON_DEPTH + 1));
        assert_eq!(deep, Err("invalid character '[' exceeded max depth".to_owned()));
    }

    #[test]
    fn valid_json_is_accepted() {
        for text in [
            "null",
            " true\n",
            "-0.5e+10",
            "0",
            "\"a\\u00e9\\n\u{7f}\"",
            "[]",
            "[[], {}]",
            "{\"a\": [1, {\"b\": false}], \"c\": null}\n",
        ] {
            assert_eq!(check_json(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
