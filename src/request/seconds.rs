//! A time in an error message.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

/// Times below this one are shown in milliseconds: in seconds, they would be 0.0.
const LEAST: Duration = Duration::from_millis(100);

/// Shows a time in seconds, for example `5.0s` or `20ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Duration);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self(time) = self;
        if *time < LEAST {
            return write!(formatter, "{}ms", time.as_millis());
        }
        write!(formatter, "{:.1}s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_not_shown_as_nothing() {
        for (micros, expected) in
            [(0, "0ms"), (20_400, "20ms"), (99_999, "99ms"), (100_000, "0.1s"), (5_000_000, "5.0s")]
        {
            assert_eq!(Seconds(Duration::from_micros(micros)).to_string(), expected);
        }
    }
}
