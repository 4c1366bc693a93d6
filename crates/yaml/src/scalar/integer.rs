//! Integers.

use super::Value;

/// An integer in Go's notation: decimal, `0x`, `0b`, `0o`, or octal with a
/// leading `0`.
pub(super) fn parse(text: &[u8]) -> Option<Value> {
    let (is_negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let has_sign = unsigned.len() < text.len();
    match magnitude(unsigned) {
        Some(magnitude) => value(is_negative, has_sign, magnitude),
        None => signed_binary(text),
    }
}

fn value(is_negative: bool, has_sign: bool, magnitude: u64) -> Option<Value> {
    if is_negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Value::Int);
    }
    match i64::try_from(magnitude) {
        Ok(number) => Some(Value::Int(number)),
        // Go's unsigned parser accepts no sign, not even `+`.
        Err(_) if has_sign => None,
        Err(_) => Some(Value::Uint(magnitude)),
    }
}

fn magnitude(text: &[u8]) -> Option<u64> {
    let (radix, digits) = match text {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => (16, digits),
        [b'0', b'b' | b'B', digits @ ..] if !digits.is_empty() => (2, digits),
        [b'0', b'o' | b'O', digits @ ..] | [b'0', digits @ ..] if !digits.is_empty() => (8, digits),
        _ => (10, text),
    };
    unsigned(digits, radix)
}

fn unsigned(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        number.checked_mul(radix.into())?.checked_add(digit.into())
    })
}

/// go-yaml accepts a sign after `0b` too.
fn signed_binary(text: &[u8]) -> Option<Value> {
    let (is_negative, digits) = match text {
        [b'0', b'b', b'-', digits @ ..] => (true, digits),
        [b'0', b'b', b'+', digits @ ..] => (false, digits),
        _ => return None,
    };
    value(is_negative, true, unsigned(digits, 2)?)
}
