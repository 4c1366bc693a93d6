//! `time.Parse`: times in RFC 3339 with its error texts, and parts of other layouts.

use std::{fmt::Write as _, ops::RangeInclusive};

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A field of a time.
struct Number {
    /// The field's name in Go's layout.
    layout: &'static str,
    least: usize,
    most: usize,
    /// Valid values, and the field's name in Go's errors. None for the day, whose
    /// values depend on the month.
    range: Option<(RangeInclusive<u32>, &'static str)>,
}

const MONTH: Number = Number { layout: "01", least: 2, most: 2, range: Some((1..=12, "month")) };
const DAY: Number = Number { layout: "02", least: 2, most: 2, range: None };
/// Go accepts an hour of one digit, unlike RFC 3339.
const HOUR: Number = Number { layout: "15", least: 1, most: 2, range: Some((0..=23, "hour")) };
const MINUTE: Number = Number { layout: "04", least: 2, most: 2, range: Some((0..=59, "minute")) };
const SECOND: Number = Number { layout: "05", least: 2, most: 2, range: Some((0..=59, "second")) };

/// Checks a time in RFC 3339. The error is Go's text.
pub fn check(text: &str) -> Result<(), String> {
    let mut reader = TimeReader { text, rest: text.as_bytes() };
    let year = reader.year()?;
    reader.skip(b'-')?;
    let month = reader.number(&MONTH)?;
    reader.skip(b'-')?;
    let day = reader.number(&DAY)?;
    reader.skip(b'T')?;
    reader.number(&HOUR)?;
    reader.skip(b':')?;
    reader.number(&MINUTE)?;
    reader.skip(b':')?;
    reader.number(&SECOND)?;
    reader.rest = skip_fraction(reader.rest);
    reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(reader.wrong(&format!("extra text: {}", quote(reader.rest))));
    }
    let is_valid = days(year, month).is_some_and(|days| (1..=days).contains(&day));
    if is_valid { Ok(()) } else { Err(reader.out_of_range("day")) }
}

/// Days of a month; `None` if there is no such month.
#[must_use]
pub fn days(year: u32, month: u32) -> Option<u32> {
    let divides = |by| year.is_multiple_of(by);
    let is_leap = divides(4) && (!divides(100) || divides(400));
    match month {
        4 | 6 | 9 | 11 => Some(30),
        2 if is_leap => Some(29),
        2 => Some(28),
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        _ => None,
    }
}

/// Skips a fraction of a second, which may follow the seconds in every layout. Returns the rest.
#[must_use]
pub fn skip_fraction(text: &[u8]) -> &[u8] {
    match text {
        [b'.' | b',', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
            let end = digits.iter().position(|byte| !byte.is_ascii_digit());
            digits.get(end.unwrap_or(digits.len())..).unwrap_or_default()
        }
        _ => text,
    }
}

struct TimeReader<'t> {
    text: &'t str,
    rest: &'t [u8],
}

impl TimeReader<'_> {
    fn year(&mut self) -> Result<u32, String> {
        let (digits, rest) = self.rest.split_at_checked(4).ok_or(self.unparsed("2006"))?;
        let year = value(digits).ok_or(self.unparsed("2006"))?;
        self.rest = rest;
        Ok(year)
    }

    fn number(&mut self, number: &Number) -> Result<u32, String> {
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        let length = self.rest.iter().take(number.most).take_while(is_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        let found = value(digits).filter(|_| length >= number.least);
        let found = found.ok_or(self.unparsed(number.layout))?;
        match &number.range {
            Some((range, name)) if !range.contains(&found) => Err(self.out_of_range(name)),
            Some(_) | None => {
                self.rest = rest;
                Ok(found)
            }
        }
    }

    fn skip(&mut self, byte: u8) -> Result<(), String> {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.ok_or(self.unparsed(char::from(byte).encode_utf8(&mut [0; 4])))?;
        Ok(())
    }

    /// Reads `Z` or an offset. Go accepts offsets of 24 hours and of 60 minutes.
    fn zone(&mut self) -> Result<(), String> {
        let (hours, minutes, rest) = match self.rest {
            [b'Z', rest @ ..] => {
                self.rest = rest;
                return Ok(());
            }
            [b'+' | b'-', h1, h2, b':', m1, m2, rest @ ..] => ([*h1, *h2], [*m1, *m2], rest),
            _ => return Err(self.unparsed("Z07:00")),
        };
        match (value(&hours), value(&minutes)) {
            (Some(25..), _) => Err(self.out_of_range("time zone offset hour")),
            (Some(_), Some(61..)) => Err(self.out_of_range("time zone offset minute")),
            (Some(_), Some(_)) => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(self.unparsed("Z07:00")),
        }
    }

    fn unparsed(&self, layout: &str) -> String {
        let (text, rest) = (quote(self.text.as_bytes()), quote(self.rest));
        format!("parsing time {text} as \"{LAYOUT}\": cannot parse {rest} as \"{layout}\"")
    }

    fn out_of_range(&self, what: &str) -> String {
        self.wrong(&format!("{what} out of range"))
    }

    fn wrong(&self, what: &str) -> String {
        format!("parsing time {}: {what}", quote(self.text.as_bytes()))
    }
}

fn value(digits: &[u8]) -> Option<u32> {
    str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit))?.parse().ok()
}

/// Quotes a text as Go's package `time` does.
fn quote(text: &[u8]) -> String {
    let mut quoted = "\"".to_owned();
    for &byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(quoted, "\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from argocd-cmp-server v3.2.12.
    #[test]
    fn invalid_times_are_refused_with_gos_text() {
        let unparsed = |text: &str, rest: &str, layout: &str| {
            let as_layout = "as \"2006-01-02T15:04:05Z07:00\"";
            format!("parsing time {text} {as_layout}: cannot parse {rest} as \"{layout}\"")
        };
        let cases = [
            ("2026-01-31", unparsed("\"2026-01-31\"", "\"\"", "T")),
            ("yesterday", unparsed("\"yesterday\"", "\"yesterday\"", "2006")),
            ("", unparsed("\"\"", "\"\"", "2006")),
            (
                "2026-1-31T12:00:00Z",
                unparsed("\"2026-1-31T12:00:00Z\"", "\"1-31T12:00:00Z\"", "01"),
            ),
            ("2026-01-31t12:00:00z", unparsed("\"2026-01-31t12:00:00z\"", "\"t12:00:00z\"", "T")),
            ("2026-01-31T12:00:00 Z", unparsed("\"2026-01-31T12:00:00 Z\"", "\" Z\"", "Z07:00")),
            ("2026-01-31T12:00Z", unparsed("\"2026-01-31T12:00Z\"", "\"Z\"", ":")),
            ("2026-01-31T12:00:00.Z", unparsed("\"2026-01-31T12:00:00.Z\"", "\".Z\"", "Z07:00")),
            ("2026-01-31T12:00:0.5Z", unparsed("\"2026-01-31T12:00:0.5Z\"", "\"0.5Z\"", "05")),
            (
                "20260-01-31T12:00:00Z",
                unparsed("\"20260-01-31T12:00:00Z\"", "\"0-01-31T12:00:00Z\"", "-"),
            ),
            (
                "a\"b\u{e9}\n",
                unparsed("\"a\\\"b\\xc3\\xa9\\x0a\"", "\"a\\\"b\\xc3\\xa9\\x0a\"", "2006"),
            ),
            ("2026-02-30T12:00:00Z", "\"2026-02-30T12:00:00Z\": day out of range".into()),
            ("2026-01-00T12:00:00Z", "\"2026-01-00T12:00:00Z\": day out of range".into()),
            ("2026-13-31T12:00:00Z", "\"2026-13-31T12:00:00Z\": month out of range".into()),
            ("2026-01-31T24:00:00Z", "\"2026-01-31T24:00:00Z\": hour out of range".into()),
            ("2026-01-31T12:00:60Z", "\"2026-01-31T12:00:60Z\": second out of range".into()),
            (
                "2026-01-31T12:00:00+25:00",
                "\"2026-01-31T12:00:00+25:00\": time zone offset hour out of range".into(),
            ),
            ("2026-01-31T12:00:00Zx", "\"2026-01-31T12:00:00Zx\": extra text: \"x\"".into()),
        ];
        for (text, expected) in cases {
            let expected = format!("parsing time {}", expected.trim_start_matches("parsing time "));
            assert_eq!(check(text), Err(expected));
        }
    }

    /// Recorded from argocd-cmp-server v3.2.12.
    #[test]
    fn times_that_go_accepts_are_accepted() {
        for text in [
            "2026-01-31T12:00:00Z",
            "2024-02-29T12:00:00+01:00",
            "2026-01-31T12:00:00.5Z",
            "2026-01-31T12:00:00,5Z",
            "2026-01-31T1:00:00Z",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00-01:60",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
