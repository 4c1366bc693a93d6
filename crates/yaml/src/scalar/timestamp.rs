//! Timestamps, as Go's `time` package parses them. They stay strings. The type
//! matters only for the tag `!!timestamp`.

use cmp_go::time::{days, skip_fraction};

/// A date, alone or with a time of day after `T`, `t` or spaces.
pub(super) fn is_timestamp(text: &[u8]) -> bool {
    match skip_date(text) {
        Some([]) => true,
        Some([b'T' | b't', rest @ ..]) => skip_time(rest).is_some_and(is_zone),
        // Go accepts any number of spaces for one space of the layout.
        Some(rest @ [b' ', ..]) => {
            let start = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
            skip_time(&rest[start..]).is_some_and(<[u8]>::is_empty)
        }
        Some(_) | None => false,
    }
}

/// Skips `2006-1-2`. Returns the rest.
fn skip_date(text: &[u8]) -> Option<&[u8]> {
    let (year, rest) = text.split_at_checked(4)?;
    let year = number(year)?;
    let (month, rest) = short_number(rest.strip_prefix(b"-")?)?;
    let (day, rest) = short_number(rest.strip_prefix(b"-")?)?;
    (1..=days(year, month)?).contains(&day).then_some(rest)
}

/// Skips `15:4:5` and an optional fraction. Returns the rest.
fn skip_time(text: &[u8]) -> Option<&[u8]> {
    let (hour, rest) = short_number(text)?;
    let (minute, rest) = short_number(rest.strip_prefix(b":")?)?;
    let (second, rest) = short_number(rest.strip_prefix(b":")?)?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then(|| skip_fraction(rest))
}

/// `Z` or `±hh:mm`
fn is_zone(text: &[u8]) -> bool {
    match text {
        b"Z" => true,
        [b'+' | b'-', hours @ .., b':', m1, m2] if hours.len() == 2 => {
            // Go accepts 24 hours and 60 minutes here.
            number(hours).is_some_and(|hours| hours <= 24)
                && number(&[*m1, *m2]).is_some_and(|minutes| minutes <= 60)
        }
        _ => false,
    }
}

/// One or two digits as a number, and the rest.
fn short_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let len = text.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(len);
    Some((number(digits)?, rest))
}

fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0, |number, &byte| Some(number * 10 + char::from(byte).to_digit(10)?))
}
