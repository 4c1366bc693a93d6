//! Amounts that a setting takes: the unit, and the smallest and largest value.

use std::fmt;

use super::quantity;

/// The word for no limit, in flags and definitions. 0 means the same there.
const UNLIMITED: &str = "unlimited";

/// An amount that a request may use, or `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// Unit of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, with the units of Kubernetes.
    Bytes,
    /// Things: a whole number.
    Count,
    /// Milliseconds, written as a duration of Go.
    Time,
    /// Seconds of CPU time, written as a duration and rounded up.
    ProcessorTime,
}

/// Amounts that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Unit of the value.
    pub unit: Unit,
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// True if `unlimited` is allowed.
    pub may_be_unlimited: bool,
}

impl Amount {
    /// The amount that a text stands for, if the setting takes it.
    #[must_use]
    pub fn read(self, text: &str) -> Option<Limit> {
        if text == UNLIMITED {
            return self.may_be_unlimited.then_some(Limit(None));
        }
        let amount = self.unit.read(text)?;
        if amount == 0 && self.may_be_unlimited {
            return Some(Limit(None));
        }
        (self.least..=self.most).contains(&amount).then_some(Limit(Some(amount)))
    }

    /// An amount, or its absence, as people write it.
    #[must_use]
    pub fn show(self, limit: Limit) -> impl fmt::Display {
        fmt::from_fn(move |text| match limit.0 {
            Some(amount) => self.unit.show(amount, text),
            None => text.write_str(UNLIMITED),
        })
    }

    /// The placeholder in help texts.
    pub(super) fn placeholder(self) -> &'static str {
        match (self.unit, self.may_be_unlimited) {
            (Unit::Bytes, false) => "SIZE",
            (Unit::Bytes, true) => "SIZE|unlimited",
            (Unit::Count, false) => "N",
            (Unit::Count, true) => "N|unlimited",
            (Unit::Time | Unit::ProcessorTime, false) => "DURATION",
            (Unit::Time | Unit::ProcessorTime, true) => "DURATION|unlimited",
        }
    }

    /// The texts that are taken, in words and with an example.
    #[must_use]
    pub fn expected(self) -> impl fmt::Display {
        fmt::from_fn(move |text| {
            let Self { unit, least, most, may_be_unlimited } = self;
            let (noun, example) = unit.words();
            text.write_str(noun)?;
            if most < unit.most() {
                return write!(text, " from {least} to {most}");
            }
            if least > 0 && !may_be_unlimited {
                text.write_str(" above 0")?;
            }
            write!(text, ", for example {example}")?;
            if may_be_unlimited {
                write!(text, ", or {UNLIMITED}")?;
            }
            Ok(())
        })
    }
}

impl Unit {
    /// More is never asked for.
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::Count => u32::MAX as u64,
            Self::Bytes | Self::Time | Self::ProcessorTime => u64::MAX,
        }
    }

    /// A noun, and an example.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Bytes => ("a size", "512Mi or 2G"),
            Self::Count => ("a whole number", "64"),
            Self::Time | Self::ProcessorTime => ("a duration", "90s or 1m30s"),
        }
    }

    fn read(self, text: &str) -> Option<u64> {
        // Rounded up: a little of something must not become none of it.
        let time = || quantity::time(text).map(|time| time.as_nanos());
        match self {
            Self::Bytes => quantity::size(text),
            Self::Count => text.parse().ok(),
            Self::Time => u64::try_from(time()?.div_ceil(1_000_000)).ok(),
            Self::ProcessorTime => u64::try_from(time()?.div_ceil(1_000_000_000)).ok(),
        }
    }

    fn show(self, amount: u64, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => write!(text, "{}", quantity::show_size(amount)),
            Self::Count => write!(text, "{amount}"),
            Self::Time => write!(text, "{}", quantity::show_time(amount)),
            Self::ProcessorTime => {
                write!(text, "{}", quantity::show_time(amount.saturating_mul(1000)))
            }
        }
    }
}
