//! Character classes of Go's `regexp`.

use super::super::cursor::Cursor;
use super::PatternFault;

/// The largest code point.
const LAST: u32 = 0x0010_FFFF;

/// A set of code points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Class {
    negated: bool,
    /// Inclusive ranges, in any order.
    ranges: Vec<(u32, u32)>,
}

/// A character's relation to a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Inside,
    Outside,
}

impl Class {
    /// The class contains `character`.
    pub(super) fn contains(&self, character: char) -> bool {
        let code = u32::from(character);
        let inside = self.ranges.iter().any(|&(low, high)| (low..=high).contains(&code));
        inside != self.negated
    }

    /// The only character inside or outside of the class, if there is only one.
    pub(super) fn single(&self) -> Option<(char, Side)> {
        let [(low, high)] = *self.ranges.as_slice() else { return None };
        let character = char::from_u32(low).filter(|_| low == high)?;
        Some((character, if self.negated { Side::Outside } else { Side::Inside }))
    }

    /// Reads the class at the start of `text`. Returns its length in bytes too.
    pub(super) fn parse(text: &str) -> Result<(Self, usize), PatternFault> {
        let mut cursor = Cursor { text, at: 1 };
        let mut class = Self { negated: cursor.skip_if('^'), ranges: Vec::new() };
        let mut is_first = true;
        // The first character may be `]`.
        while is_first || !cursor.rest().starts_with(']') {
            is_first = false;
            if !named(&mut cursor, &mut class)? {
                class.ranges.push(range(&mut cursor)?);
            }
        }
        Ok((class, cursor.at + 1))
    }

    /// Adds all code points outside of `ranges`, which must be in ascending
    /// order.
    fn add_complement(&mut self, ranges: &[(u32, u32)]) {
        let mut from = 0;
        for &(low, high) in ranges {
            if let Some(before) = low.checked_sub(1).filter(|&before| before >= from) {
                self.ranges.push((from, before));
            }
            from = high + 1;
        }
        self.ranges.push((from, LAST));
    }
}

/// Reads `[:alpha:]` or `\d`. Returns false if neither is next.
fn named(cursor: &mut Cursor<'_>, class: &mut Class) -> Result<bool, PatternFault> {
    let rest = cursor.rest();
    if rest.starts_with("\\p") || rest.starts_with("\\P") {
        return Err(PatternFault::UnicodeClass);
    }
    let name = match rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
        Some(end) => rest.get(..end + 4),
        None => rest.get(..2).filter(|name| name.starts_with('\\')),
    };
    let Some(name) = name else { return Ok(false) };
    let is_posix = name.starts_with('[');
    let positive = if is_posix { name.replacen("[:^", "[:", 1) } else { name.to_lowercase() };
    let Some(ranges) = ranges_named(&positive) else {
        return if is_posix { Err(bad_range(name)) } else { Ok(false) };
    };
    if positive == name {
        class.ranges.extend_from_slice(ranges);
    } else {
        class.add_complement(ranges);
    }
    cursor.at += name.len();
    Ok(true)
}

/// Reads a character or a range.
fn range(cursor: &mut Cursor<'_>) -> Result<(u32, u32), PatternFault> {
    let begin = cursor.at;
    let low = character(cursor)?;
    // A `-` at the end of a class is a literal.
    if cursor.rest().starts_with("-]") || cursor.rest() == "-" || !cursor.skip_if('-') {
        return Ok((low, low));
    }
    let high = character(cursor)?;
    if high < low {
        return Err(bad_range(cursor.text.get(begin..cursor.at).unwrap_or_default()));
    }
    Ok((low, high))
}

fn character(cursor: &mut Cursor<'_>) -> Result<u32, PatternFault> {
    let begin = cursor.at;
    match cursor.next() {
        Some('\\') => escape(cursor, begin),
        Some(character) => Ok(u32::from(character)),
        None => Err(PatternFault::Expression(format!("missing closing ]: `{}`", cursor.text))),
    }
}

/// Reads the escape after the `\` at `begin`.
fn escape(cursor: &mut Cursor<'_>, begin: usize) -> Result<u32, PatternFault> {
    let Some(escaped) = cursor.next() else {
        let text = "trailing backslash at end of expression: ``";
        return Err(PatternFault::Expression(text.to_owned()));
    };
    let code = match escaped {
        '0'..='7' => octal(cursor, escaped),
        'x' => hexadecimal(cursor),
        'a' => Some(0x07),
        'f' => Some(0x0C),
        'n' => Some(0x0A),
        'r' => Some(0x0D),
        't' => Some(0x09),
        'v' => Some(0x0B),
        other => (other.is_ascii() && !other.is_ascii_alphanumeric()).then(|| other.into()),
    };
    code.ok_or_else(|| {
        let escape = cursor.text.get(begin..cursor.at).unwrap_or_default();
        PatternFault::Expression(format!("invalid escape sequence: `{escape}`"))
    })
}

/// Up to three octal digits. A single digit other than `0` is invalid.
fn octal(cursor: &mut Cursor<'_>, first: char) -> Option<u32> {
    let mut code = first.to_digit(8)?;
    let mut digits = 1;
    while let Some(digit) = cursor.peek().and_then(|next| next.to_digit(8))
        && digits < 3
    {
        cursor.at += 1;
        code = code * 8 + digit;
        digits += 1;
    }
    (first == '0' || digits > 1).then_some(code)
}

/// Two hexadecimal digits, or any number of them in braces.
fn hexadecimal(cursor: &mut Cursor<'_>) -> Option<u32> {
    let first = cursor.next()?;
    if first != '{' {
        let second = cursor.next()?;
        return Some(first.to_digit(16)? * 16 + second.to_digit(16)?);
    }
    let mut code = None;
    loop {
        let digit = match cursor.next()? {
            '}' => return code,
            digit => digit.to_digit(16)?,
        };
        let value = code.unwrap_or(0) * 16 + digit;
        code = Some(value).filter(|&value| value <= LAST);
        code?;
    }
}

fn bad_range(text: &str) -> PatternFault {
    PatternFault::Expression(format!("invalid character class range: `{text}`"))
}

/// The ranges of a named class, in ascending order. All are ASCII.
fn ranges_named(name: &str) -> Option<&'static [(u32, u32)]> {
    Some(match name {
        "\\d" | "[:digit:]" => &[(0x30, 0x39)],
        "\\s" => &[(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
        "\\w" | "[:word:]" => &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
        "[:alnum:]" => &[(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)],
        "[:alpha:]" => &[(0x41, 0x5A), (0x61, 0x7A)],
        "[:ascii:]" => &[(0x00, 0x7F)],
        "[:blank:]" => &[(0x09, 0x09), (0x20, 0x20)],
        "[:cntrl:]" => &[(0x00, 0x1F), (0x7F, 0x7F)],
        "[:graph:]" => &[(0x21, 0x7E)],
        "[:lower:]" => &[(0x61, 0x7A)],
        "[:print:]" => &[(0x20, 0x7E)],
        "[:punct:]" => &[(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
        "[:space:]" => &[(0x09, 0x0D), (0x20, 0x20)],
        "[:upper:]" => &[(0x41, 0x5A)],
        "[:xdigit:]" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Class::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn classes_are_read_as_in_go() {
        for (text, length, inside, outside) in [
            ("[abc]d", 5, "abc", "d]"),
            ("[^x]", 4, "a/\n", "x"),
            ("[]a]", 4, "]a", "["),
            ("[^]a]", 5, "[^", "]a"),
            ("[a-c-]", 6, "abc-", "d"),
            ("[\\d\\-\\]]", 8, "09-]", "a\\"),
            ("[^\\D]", 5, "5", "x"),
            ("[[:alpha:]0]", 12, "aZ0", ":["),
            ("[[:^alpha:]]", 12, "0é", "aZ"),
            ("[[:x]", 5, "[:x", "]"),
            ("[\\x41\\x{1F600}\\101\\0\\t]", 23, "A😀\0\t", "x"),
            ("[\\x20AC]", 8, " AC", "€"),
        ] {
            let (class, end) = Class::parse(text).unwrap();
            assert_eq!(end, length, "{text}");
            assert!(inside.chars().all(|character| class.contains(character)), "{text}");
            assert!(!outside.chars().any(|character| class.contains(character)), "{text}");
        }
    }

    #[test]
    fn errors_have_the_text_of_go() {
        assert_eq!(fault("[z-a]"), "error parsing regexp: invalid character class range: `z-a`");
        assert_eq!(fault("[a$"), "error parsing regexp: missing closing ]: `[a$`");
        assert_eq!(fault("[\\y]"), "error parsing regexp: invalid escape sequence: `\\y`");
        assert_eq!(fault("[\\8]"), "error parsing regexp: invalid escape sequence: `\\8`");
        assert_eq!(fault("[\\1]"), "error parsing regexp: invalid escape sequence: `\\1`");
        assert_eq!(
            fault("[[:no:]]"),
            "error parsing regexp: invalid character class range: `[:no:]`"
        );
        assert_eq!(Class::parse("[\\pL]"), Err(PatternFault::UnicodeClass));
    }
}
