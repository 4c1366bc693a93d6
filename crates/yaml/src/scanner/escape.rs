//! Escapes in double-quoted scalars.

use super::Scanner;
use crate::error::Error;

impl Scanner<'_> {
    /// Decodes an escape. The caller handles an escaped line break.
    pub(super) fn escape(&mut self) -> Result<(), Error> {
        let character = match self.byte(1) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0B',
            b'f' => '\x0C',
            b'r' => '\r',
            b'e' => '\x1B',
            b' ' => ' ',
            b'"' => '"',
            b'\'' => '\'',
            b'\\' => '\\',
            b'N' => '\u{85}',
            b'_' => '\u{A0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.escaped_code(2),
            b'u' => return self.escaped_code(4),
            b'U' => return self.escaped_code(8),
            _ => return Err(self.error("found unknown escape character")),
        };
        self.add_escaped(character, 2);
        Ok(())
    }

    fn escaped_code(&mut self, digits: usize) -> Result<(), Error> {
        let mut code = 0_u32;
        for index in 2..2 + digits {
            let Some(digit) = char::from(self.byte(index)).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let Some(character) = char::from_u32(code) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };
        self.add_escaped(character, 2 + digits);
        Ok(())
    }

    fn add_escaped(&mut self, character: char, width: usize) {
        self.scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += width;
    }
}
