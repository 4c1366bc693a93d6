//! JSON as Go's `encoding/json` checks it, with its error texts.

/// Checks that a text is one JSON value. The error is Go's text.
pub(super) fn check(text: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner { rest: text, open: Vec::new() };
    let mut next = Next::Value;
    loop {
        scanner.rest = scanner.rest.trim_ascii_start();
        if next == Next::After && scanner.open.is_empty() {
            return scanner.end();
        }
        next = scanner.step(next)?;
    }
}

struct Scanner<'t> {
    rest: &'t [u8],
    /// The open arrays and objects, innermost last.
    open: Vec<Open>,
}

#[derive(Clone, Copy)]
enum Open {
    Array,
    Object,
}

/// The expected next token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// A value, or the end of an empty array.
    FirstValue,
    Key,
    /// A key, or the end of an empty object.
    FirstKey,
    Colon,
    /// A comma, or the end of the innermost array or object.
    After,
}

/// Go's error text shows a space where a text ends too early.
const END: u8 = b' ';

impl Scanner<'_> {
    fn step(&mut self, next: Next) -> Result<Next, String> {
        let first = *self.rest.first().ok_or("unexpected end of JSON input")?;
        let (expected, follows) = match (next, self.open.last(), first) {
            (Next::FirstValue, _, b']') | (Next::FirstKey, _, b'}') => return Ok(self.close()),
            (Next::Value | Next::FirstValue, ..) => return self.value(first),
            (Next::Key | Next::FirstKey, _, b'"') => {
                self.string()?;
                return Ok(Next::Colon);
            }
            (Next::After, Some(Open::Array), b']') | (Next::After, Some(Open::Object), b'}') => {
                return Ok(self.close());
            }
            (Next::After, Some(Open::Array), b',') | (Next::Colon, _, b':') => (None, Next::Value),
            (Next::After, Some(Open::Object), b',') => (None, Next::Key),
            (Next::After, Some(Open::Array), _) => (Some("after array element"), next),
            (Next::After, ..) => (Some("after object key:value pair"), next),
            (Next::Colon, ..) => (Some("after object key"), next),
            (Next::Key | Next::FirstKey, ..) => {
                (Some("looking for beginning of object key string"), next)
            }
        };
        if let Some(context) = expected {
            return Err(invalid(first, context));
        }
        self.advance(1);
        Ok(follows)
    }

    fn end(&self) -> Result<(), String> {
        self.rest.first().map_or(Ok(()), |byte| Err(invalid(*byte, "after top-level value")))
    }

    fn close(&mut self) -> Next {
        self.open.pop();
        self.advance(1);
        Next::After
    }

    fn advance(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn value(&mut self, first: u8) -> Result<Next, String> {
        match first {
            b'[' => return Ok(self.begin(Open::Array, Next::FirstValue)),
            b'{' => return Ok(self.begin(Open::Object, Next::FirstKey)),
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            other => return Err(invalid(other, "looking for beginning of value")),
        }
        Ok(Next::After)
    }

    fn begin(&mut self, open: Open, next: Next) -> Next {
        self.open.push(open);
        self.advance(1);
        next
    }

    fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(END)
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let found = self.peek();
            if found != expected {
                let expected = char::from(expected);
                return Err(invalid(found, &format!("in literal {word} (expecting '{expected}')")));
            }
            self.advance(1);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == b'-' {
            self.advance(1);
        }
        if self.peek() == b'0' {
            self.advance(1);
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == b'.' {
            self.advance(1);
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.advance(1);
            if matches!(self.peek(), b'+' | b'-') {
                self.advance(1);
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Skips one or more digits.
    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.peek().is_ascii_digit() {
            return Err(invalid(self.peek(), context));
        }
        while self.peek().is_ascii_digit() {
            self.advance(1);
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.advance(1);
        loop {
            let first = *self.rest.first().ok_or("unexpected end of JSON input")?;
            self.advance(1);
            match first {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..0x20 => return Err(invalid(first, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let letter = self.peek();
        if !b"\"\\/bfnrtu".contains(&letter) {
            return Err(invalid(letter, "in string escape code"));
        }
        self.advance(1);
        for _ in 0..if letter == b'u' { 4 } else { 0 } {
            if !self.peek().is_ascii_hexdigit() {
                return Err(invalid(self.peek(), "in \\u hexadecimal character escape"));
            }
            self.advance(1);
        }
        Ok(())
    }
}

/// Go's text for an unexpected byte.
fn invalid(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", cmp_go::quote_byte(byte))
}

#[cfg(test)]
mod tests {
    use super::check;

    /// Recorded from `encoding/json` of Go 1.26.
    const REFUSED: [(&[u8], &str); 37] = [
        (b"", "unexpected end of JSON input"),
        (b" ", "unexpected end of JSON input"),
        (b"[1", "unexpected end of JSON input"),
        (b"{\"a\"", "unexpected end of JSON input"),
        (b"\"abc", "unexpected end of JSON input"),
        (b"[}", "invalid character '}' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
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
            assert_eq!(check(text), Err(expected.to_owned()), "{shown}");
        }
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
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
