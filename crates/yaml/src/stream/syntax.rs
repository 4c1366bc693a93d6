//! A JSON scanner with the rules and error texts of Go's `encoding/json`.

use std::ops::Range;

use cmp_go::quote_byte;

use super::MAX_JSON_DEPTH;

/// The reason why a text is not JSON.
#[derive(Debug)]
pub(super) enum Syntax {
    /// A byte that is not allowed at this point.
    Invalid {
        offset: usize,
        byte: u8,
        context: &'static str,
    },
    UnexpectedEnd,
}

impl Syntax {
    /// Go's error text. Argo CD adds the offset only to the first value's
    /// error.
    pub(super) fn text(&self, with_offset: bool) -> String {
        match self {
            Self::UnexpectedEnd => "unexpected EOF".to_owned(),
            Self::Invalid { offset, byte, context } => {
                let text = format!("invalid character {} {context}", quote_byte(*byte));
                if with_offset { format!("json: offset {}: {text}", offset + 1) } else { text }
            }
        }
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
        Err(Syntax::UnexpectedEnd) | Ok(_) => '[',
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
        self.text.get(self.at).copied().ok_or(Syntax::UnexpectedEnd)
    }

    fn invalid<T>(&self, context: &'static str) -> Result<T, Syntax> {
        let byte = self.byte()?;
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
        match self.byte()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.byte()?.is_ascii_hexdigit() {
                        return self.invalid("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
            }
            _ => return self.invalid("in string escape code"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Syntax> {
        if self.byte()? == b'-' {
            self.at += 1;
        }
        match self.byte()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits("in numeric literal")?,
            _ => return self.invalid("in numeric literal"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.byte()? {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Reads at least one digit.
    fn digits(&mut self, context: &'static str) -> Result<(), Syntax> {
        if !self.byte()?.is_ascii_digit() {
            return self.invalid(context);
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, name: &str, contexts: &[&'static str]) -> Result<(), Syntax> {
        for (byte, context) in name.bytes().zip(contexts) {
            if self.byte()? != byte {
                return self.invalid(context);
            }
            self.at += 1;
        }
        Ok(())
    }
}

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
