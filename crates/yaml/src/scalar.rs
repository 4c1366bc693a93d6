//! Types of scalars in YAML 1.1, as go-yaml v2 resolves them.

mod integer;
mod timestamp;

use super::{
    event::{Scalar, Tag},
    token::Style,
};

/// The value of a scalar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number too large for `Int`.
    Uint(u64),
    Float(f64),
    /// The characters as they are.
    Str,
    /// The characters as they are; they are a valid timestamp.
    Timestamp,
    /// The bytes that the characters encode in base64.
    Binary,
}

impl Value {
    fn tag(self) -> Tag {
        match self {
            Self::Null => Tag::Null,
            Self::Bool(_) => Tag::Bool,
            Self::Int(_) | Self::Uint(_) => Tag::Int,
            Self::Float(_) => Tag::Float,
            Self::Str => Tag::Str,
            Self::Timestamp => Tag::Timestamp,
            Self::Binary => Tag::Binary,
        }
    }
}

/// The value of a scalar. The error is the type of the text if the scalar's tag
/// does not allow it.
pub(super) fn resolve(scalar: &Scalar, text: &[u8]) -> Result<Value, Tag> {
    match scalar.tag {
        Tag::None if scalar.style == Style::Plain => Ok(guess(text, true)),
        Tag::None | Tag::Str | Tag::Merge | Tag::NonSpecific | Tag::Other => Ok(Value::Str),
        Tag::Binary => Ok(Value::Binary),
        tag @ (Tag::Int | Tag::Float | Tag::Bool | Tag::Null | Tag::Timestamp) => tagged(tag, text),
    }
}

/// The key is a merge key: `<<`.
pub(super) fn is_merge(scalar: &Scalar, text: &[u8]) -> bool {
    let is_plain = scalar.tag == Tag::None && scalar.style == Style::Plain;
    let may_merge = is_plain || matches!(scalar.tag, Tag::Merge | Tag::NonSpecific);
    may_merge && text == b"<<"
}

fn tagged(tag: Tag, text: &[u8]) -> Result<Value, Tag> {
    let value = guess(text, tag == Tag::Timestamp);
    if let Value::Int(number) = value
        && tag == Tag::Float
    {
        #[expect(clippy::cast_precision_loss, reason = "so does Go")]
        return Ok(Value::Float(number as f64));
    }
    if value.tag() == tag { Ok(value) } else { Err(value.tag()) }
}

/// Resolves a scalar without a tag. Most texts are decided by their first byte.
fn guess(text: &[u8], may_be_time: bool) -> Value {
    match text {
        [] => Value::Null,
        [b'0'..=b'9' | b'+' | b'-', ..] => number(text, may_be_time),
        [b'.', ..] => special(text).or_else(|| fraction(text)).unwrap_or(Value::Str),
        [b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~', ..] => {
            word(text)
        }
        _ => Value::Str,
    }
}

fn word(text: &[u8]) -> Value {
    match text {
        b"~" | b"null" | b"Null" | b"NULL" => Value::Null,
        b"y" | b"Y" | b"yes" | b"Yes" | b"YES" | b"true" | b"True" | b"TRUE" | b"on" | b"On"
        | b"ON" => Value::Bool(true),
        b"n" | b"N" | b"no" | b"No" | b"NO" | b"false" | b"False" | b"FALSE" | b"off" | b"Off"
        | b"OFF" => Value::Bool(false),
        _ => Value::Str,
    }
}

fn special(text: &[u8]) -> Option<Value> {
    let value = match text {
        b".inf" | b".Inf" | b".INF" | b"+.inf" | b"+.Inf" | b"+.INF" => f64::INFINITY,
        b"-.inf" | b"-.Inf" | b"-.INF" => f64::NEG_INFINITY,
        b".nan" | b".NaN" | b".NAN" => f64::NAN,
        _ => return None,
    };
    Some(Value::Float(value))
}

fn number(text: &[u8], may_be_time: bool) -> Value {
    if let Some(value) = special(text) {
        return value;
    }
    if may_be_time && timestamp::is_timestamp(text) {
        return Value::Timestamp;
    }
    let digits: Vec<u8>;
    let plain = if text.contains(&b'_') {
        digits = text.iter().copied().filter(|&byte| byte != b'_').collect();
        &digits
    } else {
        text
    };
    integer::parse(plain).or_else(|| decimal(plain)).unwrap_or(Value::Str)
}

/// A number with a fraction or an exponent.
fn decimal(text: &[u8]) -> Option<Value> {
    let unsigned = text.strip_prefix(b"+").or(text.strip_prefix(b"-")).unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let (part, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        _ => (&rest[..0], rest),
    };
    let has_digits = !whole.is_empty() || !part.is_empty();
    let is_number = match rest {
        [] => has_digits,
        [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => {
            has_digits && !exponent.is_empty() && split_digits(exponent).1.is_empty()
        }
        _ => false,
    };
    if is_number { float(text) } else { None }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A number that starts with a point. Only here `_` must be between two digits,
/// as Go requires.
fn fraction(text: &[u8]) -> Option<Value> {
    if !text.contains(&b'_') {
        return decimal(text);
    }
    let digit = |index: usize| text.get(index).is_some_and(u8::is_ascii_digit);
    let is_separator = |index: usize| index > 0 && digit(index - 1) && digit(index + 1);
    if !(0..text.len()).all(|index| text[index] != b'_' || is_separator(index)) {
        return None;
    }
    let digits: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'_').collect();
    decimal(&digits)
}

/// The number, or `None` if it is too large for a float.
fn float(text: &[u8]) -> Option<Value> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(Value::Float(number))
}
