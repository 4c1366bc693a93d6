//! Sizes and times: read as people write them, and written the same way.

use std::{fmt, time::Duration};

/// Units of sizes, as in Kubernetes, the largest of each kind first.
const SIZES: [(&str, u64); 8] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1000),
];

/// Units of times, as in Go, the largest first; in milliseconds.
const TIMES: [(&str, u32); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Bytes: a whole number, with or without a unit (`512Mi`, `2G`).
pub(super) fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let known = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = if unit.is_empty() { 1 } else { known? };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A time as Go writes it: `1m30s`, `1.5h`, `300ms`. Only 0 needs no unit.
pub(super) fn time(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let (_, millis) = TIMES.iter().find(|(name, _)| *name == unit)?;
        let seconds = number.parse::<f64>().ok()? * f64::from(*millis) / 1000.0;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// A size in the largest unit that needs no fraction.
pub(super) fn show_size(bytes: u64) -> impl fmt::Display {
    let unit = SIZES.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    fmt::from_fn(move |text| match unit {
        Some((name, factor)) => write!(text, "{}{name}", bytes / factor),
        None => write!(text, "{bytes}"),
    })
}

/// A time as a sum without zeros: `1m30s`.
pub(super) fn show_time(millis: u64) -> impl fmt::Display {
    fmt::from_fn(move |text| {
        if millis == 0 {
            return text.write_str("0s");
        }
        let mut rest = millis;
        for (name, factor) in TIMES.map(|(name, factor)| (name, u64::from(factor))) {
            if rest >= factor {
                write!(text, "{}{name}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_two_kinds() {
        for (text, expected) in
            [("0", 0), ("1500", 1500), ("2k", 2000), ("512Mi", 512 << 20), ("3G", 3_000_000_000)]
        {
            assert_eq!(size(text), Some(expected), "{text}");
        }
        for text in ["", "Mi", "1.5Gi", "-1", "1 Mi", "1mi", "99999999999999999999", "20000000Ti"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_sums() {
        for (text, millis) in
            [("90s", 90_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("20ms", 20), ("0", 0)]
        {
            assert_eq!(time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "1x", "1m 30s", "-1s", "1..5s", "99999999999999999999h"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_as_they_are_read() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (1000, "1k"),
            (1536, "1536"),
            (2 << 30, "2Gi"),
            (1536 << 20, "1536Mi"),
            (3_000_000_000, "3G"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(show_size(bytes).to_string(), text);
            assert_eq!(size(text), Some(bytes));
        }
        for (millis, text) in
            [(0, "0s"), (90_000, "1m30s"), (600_000, "10m"), (3_600_500, "1h500ms")]
        {
            assert_eq!(show_time(millis).to_string(), text);
            assert_eq!(time(text), Some(Duration::from_millis(millis)));
        }
    }
}
