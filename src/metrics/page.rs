//! The page for Prometheus, made of the pages of several recorders.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
};

use super::family::{Family, Kind};

/// Microseconds in a second.
const MICROS: f64 = 1_000_000.0;

/// One page with the series of all pages: each family once, in this order.
pub(super) fn joined(pages: &[String], families: &[&Family]) -> String {
    // A recorder ends each family with an empty line, and escapes the lines of labels.
    let blocks = pages.iter().flat_map(|page| page.split("\n\n"));
    let mut all = BTreeMap::<&str, Vec<&str>>::new();
    for (declaration, samples) in blocks.filter_map(|block| block.split_once('\n')) {
        let name = declaration.split(' ').nth(2).unwrap_or_default();
        all.entry(name).or_default().push(samples);
    }
    let mut joined = String::with_capacity(pages.iter().map(String::len).sum());
    for Family { name, kind, about, .. } in families {
        let Some(samples) = all.get(name) else { continue };
        // Writing to a String cannot fail.
        let _ = writeln!(joined, "# HELP {name} {about}\n# TYPE {name} {}", kind.word());
        for line in samples.iter().flat_map(|samples| samples.lines()) {
            match line.rsplit_once(' ').filter(|_| *kind == Kind::SecondsCounter) {
                Some((series, micros)) => {
                    let seconds = micros.parse::<f64>().unwrap_or_default() / MICROS;
                    let _ = writeln!(joined, "{series} {seconds}");
                }
                None => joined.extend([line, "\n"]),
            }
        }
        joined.push('\n');
    }
    joined
}

/// The part of a page with one family, whose samples have the values of its labels.
pub(super) fn block<'s, V: Display>(
    family: &Family,
    samples: impl Iterator<Item = (Vec<&'s str>, V)>,
) -> String {
    let Family { name, kind, labels, about } = family;
    let mut block = format!("# HELP {name} {about}\n# TYPE {name} {}\n", kind.word());
    for (values, value) in samples {
        let labels = labels.iter().zip(values);
        let labels = labels.map(|(l, value)| format!("{}=\"{}\"", l.name(), escaped(value)));
        // Writing to a String cannot fail.
        let _ = writeln!(block, "{name}{{{}}} {value}", labels.collect::<Vec<_>>().join(","));
    }
    block
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
    fn each_family_is_there_once_with_the_series_of_all_pages() {
        let cpu = family(("cpu_seconds_total", Kind::SecondsCounter), &[], "Time.");
        let other = family(("other_total", Kind::Counter), &[], "Others.");
        let none = family(("none", Kind::Gauge), &[], "None.");
        let pages = [
            "# TYPE other_total counter\nother_total 1500000\n\n\
             # TYPE cpu_seconds_total counter\ncpu_seconds_total{a=\"b 1\"} 1500000\n\n"
                .to_owned(),
            "# TYPE cpu_seconds_total counter\ncpu_seconds_total{a=\"c\"} 0\n\n".to_owned(),
        ];
        let expected = "# HELP cpu_seconds_total Time.\n# TYPE cpu_seconds_total counter\n\
                        cpu_seconds_total{a=\"b 1\"} 1.5\ncpu_seconds_total{a=\"c\"} 0\n\n\
                        # HELP other_total Others.\n# TYPE other_total counter\n\
                        other_total 1500000\n\n";
        assert_eq!(joined(&pages, &[&cpu, &none, &other]), expected);
    }
}
