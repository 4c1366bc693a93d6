//! The page for Prometheus: corrections of the exporter's text.

use std::fmt::Write as _;

use super::family::{Family, Kind};

/// Microseconds in a second.
const MICROS: f64 = 1_000_000.0;

/// Converts the values of [`Kind::SecondsCounter`] to seconds.
pub(super) fn in_seconds(page: &str, families: &[&Family]) -> String {
    let counters = families.iter().filter(|family| family.kind == Kind::SecondsCounter);
    let names: Vec<_> = counters.map(|family| family.name).collect();
    let is_of = |line: &str, name: &&str| {
        line.strip_prefix(*name).is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let mut converted = String::with_capacity(page.len());
    for line in page.split_inclusive('\n') {
        let sample = names.iter().find(|name| is_of(line, name));
        match sample.and_then(|_| line.trim_end().rsplit_once(' ')) {
            Some((series, micros)) => {
                let seconds = micros.parse::<f64>().unwrap_or_default() / MICROS;
                // Writing to a String cannot fail.
                let _ = writeln!(converted, "{series} {seconds}");
            }
            None => converted.push_str(line),
        }
    }
    converted
}

/// A value of a label, as the page has it.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::family::family;

    #[test]
    fn only_counters_of_seconds_are_converted() {
        let cpu = family(("cpu_seconds_total", Kind::SecondsCounter), &[], "");
        let other = family(("cpu_seconds_total_more", Kind::Counter), &[], "");
        let page = "# HELP cpu_seconds_total x\ncpu_seconds_total{a=\"b 1\"} 1500000\n\
                    cpu_seconds_total_more 1500000\n";
        let expected = page.replace("} 1500000", "} 1.5");
        assert_eq!(in_seconds(page, &[&cpu, &other]), expected);
    }
}
