//! The time that a client grants.

use std::time::Duration;

use http::HeaderMap;
use thiserror::Error;

/// A `grpc-timeout` that is none. Its text is that of Go's server.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Malformed {
    #[error("malformed grpc-timeout: transport: timeout string is too short: {0}")]
    Short(String),
    #[error("malformed grpc-timeout: transport: timeout string is too long: {0}")]
    Long(String),
    #[error("malformed grpc-timeout: transport: timeout unit is not recognized: {0}")]
    Unit(String),
    #[error("malformed grpc-timeout: strconv.ParseUint: parsing {0}: invalid syntax")]
    Amount(String),
}

/// Parses the client's `grpc-timeout`: at most eight digits and a unit.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Malformed> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    parse(value.as_bytes()).map(Some)
}

fn parse(text: &[u8]) -> Result<Duration, Malformed> {
    let (digits, unit) = match text {
        [] | [_] => return Err(Malformed::Short(quoted(text))),
        [digits @ .., unit] if digits.len() <= 8 => (digits, unit),
        _ => return Err(Malformed::Long(quoted(&text[..text.len().min(MAX_SHOWN)]))),
    };
    let scale = match unit {
        b'H' => Duration::from_hours,
        b'M' => Duration::from_mins,
        b'S' => Duration::from_secs,
        b'm' => Duration::from_millis,
        b'u' => Duration::from_micros,
        b'n' => Duration::from_nanos,
        _ => return Err(Malformed::Unit(quoted(text))),
    };
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let amount =
        str::from_utf8(digits).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    amount.map(scale).ok_or_else(|| Malformed::Amount(quoted(digits)))
}

/// Bytes of a long value that its error repeats.
const MAX_SHOWN: usize = 100;

fn quoted(text: &[u8]) -> String {
    let mut quoted = String::new();
    cmp_go::quote(&String::from_utf8_lossy(text), &mut quoted);
    quoted
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(text: &str) -> Result<Option<Duration>, String> {
        let value = HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static("grpc-timeout"), value)]);
        timeout(&headers).map_err(|error| error.to_string())
    }

    #[test]
    fn timeouts_are_read_in_every_unit() {
        for (text, expected) in [
            ("5S", Duration::from_secs(5)),
            ("59999m", Duration::from_millis(59_999)),
            ("12345678n", Duration::from_nanos(12_345_678)),
            ("7u", Duration::from_micros(7)),
            ("90M", Duration::from_mins(90)),
            ("99999999H", Duration::from_hours(99_999_999)),
        ] {
            assert_eq!(read(text), Ok(Some(expected)), "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn malformed_timeouts_have_the_errors_of_gos_server() {
        for (text, expected) in [
            ("", "transport: timeout string is too short: \"\""),
            ("S", "transport: timeout string is too short: \"S\""),
            ("123456789S", "transport: timeout string is too long: \"123456789S\""),
            ("1X", "transport: timeout unit is not recognized: \"1X\""),
            ("1é", "transport: timeout unit is not recognized: \"1é\""),
            ("-1S", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
            ("+1S", "strconv.ParseUint: parsing \"+1\": invalid syntax"),
            ("1.5S", "strconv.ParseUint: parsing \"1.5\": invalid syntax"),
        ] {
            assert_eq!(read(text), Err(format!("malformed grpc-timeout: {expected}")), "{text}");
        }
        assert!(read(&"9".repeat(60_000)).unwrap_err().len() < 200);
    }
}
