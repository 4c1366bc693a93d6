//! The time that a client grants.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Parses the client's `grpc-timeout`: at most eight digits and a unit.
pub(super) fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_hours(amount)),
        "M" => Some(Duration::from_mins(amount)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        for (text, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("59999m", Some(Duration::from_millis(59_999))),
            ("12345678n", Some(Duration::from_nanos(12_345_678))),
            ("1H", Some(Duration::from_hours(1))),
            ("123456789S", None),
            ("5", None),
            ("", None),
            ("xS", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(timeout(&metadata), expected, "{text}");
        }
    }
}
