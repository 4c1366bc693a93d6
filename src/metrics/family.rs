//! Declarations of metrics.

use super::label::Dimension;

/// A family of series: the only declaration of a metric.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// Its name, with the unit at its end.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its labels in order.
    pub labels: &'static [Dimension],
    /// Its meaning, in one sentence with a full stop.
    pub about: &'static str,
}

/// The kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number of events.
    Counter,
    /// A sum of seconds. The recorder has whole numbers only, so it counts
    /// microseconds.
    SecondsCounter,
    /// A number that rises and falls.
    Gauge,
    /// A distribution, with the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// Upper bounds for durations, in seconds. Rendering takes milliseconds to
/// minutes, and Argo CD's default deadline is 60 s.
pub(super) const SECONDS: Kind = Kind::Histogram(&[
    0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0,
    180.0, 300.0,
]);

/// Upper bounds for fractions of a limit; narrow ones near 1.
pub(super) const RATIOS: Kind = Kind::Histogram(&[0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 1.0]);

/// Upper bounds for numbers, by powers of ten.
pub(super) const NUMBERS: Kind = Kind::Histogram(&[1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);

/// Upper bounds for sizes, in bytes: 4 KiB to 4 GiB by powers of four.
pub(super) const BYTES: Kind = Kind::Histogram(&[
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
]);

impl Kind {
    /// The word in the page and in the docs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter | Self::SecondsCounter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Declares a family.
pub(super) const fn family(
    (name, kind): (&'static str, Kind),
    labels: &'static [Dimension],
    about: &'static str,
) -> Family {
    Family { name, kind, labels, about }
}
