//! Amounts as people write them.

use std::time::Duration;

/// Bytes: a number, or one with a unit of Kubernetes' (`512Mi`, `2G`).
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u64.pow(2),
        "G" => 1000_u64.pow(3),
        "T" => 1000_u64.pow(4),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A time as Go writes it: `1m30s`, `1.5h`, `300ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let seconds: f64 = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_of_two_kinds() {
        for (text, expected) in
            [("0", 0), ("1500", 1500), ("2k", 2000), ("512Mi", 512 << 20), ("3G", 3_000_000_000)]
        {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "Mi", "1.5Gi", "-1", "1 Mi", "1mi", "99999999999999999999", "20000000Ti"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_sums() {
        for (text, millis) in
            [("90s", 90_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("20ms", 20)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "1x", "1m 30s", "-1s", "1..5s", "99999999999999999999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
