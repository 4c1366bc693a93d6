//! Times that can be shown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999, since 1970.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// The time, or the nearest one between the years 1970 and 9999: RFC 3339 has no others, and
/// the clock of a machine may be wrong.
pub(crate) fn displayable(time: SystemTime) -> SystemTime {
    time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST)
}

#[cfg(test)]
mod tests {
    use humantime::format_rfc3339_seconds;

    use super::*;

    #[test]
    fn a_wrong_clock_can_be_shown() {
        let show = |time| format_rfc3339_seconds(displayable(time)).to_string();
        assert_eq!(show(UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00Z");
        assert_eq!(show(UNIX_EPOCH + Duration::from_secs(9)), "1970-01-01T00:00:09Z");
        assert_eq!(show(UNIX_EPOCH + 2 * LAST), "9999-12-31T23:59:59Z");
    }
}
