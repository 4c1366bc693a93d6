//! The list of all metrics.

use super::{
    Family, applications, grpc, plugins, process, queue, reload, requests, sandbox, shares,
};

/// All families, in the order of the docs.
pub static FAMILIES: [&Family; 69] = [
    &process::BUILD_INFO,
    &reload::READY,
    &reload::PLUGINS,
    &plugins::PLUGIN_UP,
    &reload::PLUGIN_STATE,
    &plugins::PLUGIN_INFO,
    &requests::REQUESTS,
    &requests::IN_FLIGHT,
    &queue::WAITING,
    &queue::WAITED,
    &requests::DURATION,
    &requests::PHASE_DURATION,
    &requests::DEADLINE_USED,
    &requests::LIMIT_USED,
    &requests::TIMEOUTS,
    &requests::KILLS,
    &requests::NOT_STARTED,
    &requests::CPU,
    &requests::PEAK_MEMORY,
    &applications::CPU,
    &applications::PEAK_MEMORY,
    &applications::REQUESTS,
    &requests::RECEIVED,
    &requests::UNPACKED,
    &requests::FILES,
    &requests::STREAM_ERRORS,
    &requests::RESPONSE_BYTES,
    &requests::MANIFESTS,
    &requests::EMPTY,
    &requests::ENCRYPTED,
    &grpc::STARTED,
    &grpc::HANDLED,
    &grpc::HANDLING,
    &grpc::REFUSED,
    &shares::BUDGET,
    &shares::BUDGET_USED,
    &shares::BUDGET_SHORT,
    &shares::LIMIT,
    &shares::USED,
    &shares::PERIODS,
    &shares::THROTTLED,
    &shares::CONNECTIONS,
    &sandbox::FREE_BYTES,
    &sandbox::SIZE,
    &sandbox::FREE_INODES,
    &sandbox::ISOLATION,
    &sandbox::FEATURES,
    &sandbox::LEASES,
    &sandbox::QUARANTINED,
    &sandbox::QUARANTINES,
    &sandbox::ANSWERS,
    &sandbox::ORPHANS,
    &reload::RELOADS,
    &reload::DURATION,
    &reload::SUCCESSFUL,
    &reload::SUCCESS_TIME,
    &reload::GENERATION,
    &reload::HASH,
    &reload::DIAGNOSTICS,
    &reload::KEPT,
    &reload::WATCHING,
    &reload::WATCH_ERRORS,
    &reload::STATIC_MOUNT,
    &process::CPU,
    &process::RESIDENT,
    &process::VIRTUAL,
    &process::OPEN,
    &process::MAX,
    &process::STARTED,
];

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fmt::Write as _,
    };

    use super::*;
    use crate::metrics::{Dimension, Kind, Metrics};

    /// The tables of docs/metrics.md.
    fn tables() -> String {
        let mut text = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
        for Family { name, kind, labels, about } in FAMILIES {
            let labels: Vec<_> = labels.iter().map(|l| format!("`{}`", l.name())).collect();
            let (word, labels) = (kind.word(), labels.join(", "));
            writeln!(text, "| `{name}` | {word} | {labels} | {about} |").unwrap();
        }
        let mut uses = BTreeMap::<Dimension, Vec<&str>>::new();
        for family in FAMILIES {
            for label in family.labels {
                uses.entry(*label).or_default().push(family.name);
            }
        }
        text.push_str("\n| label | metrics | values |\n|---|---|---|\n");
        for (label, metrics) in uses {
            let values: Vec<_> = label.values().iter().map(|v| format!("`{v}`")).collect();
            let metrics = match metrics.as_slice() {
                [one] => format!("`{one}`"),
                several => format!("{} metrics", several.len()),
            };
            if !values.is_empty() {
                writeln!(text, "| `{}` | {metrics} | {} |", label.name(), values.join(", "))
                    .unwrap();
            }
        }
        text
    }

    #[test]
    fn the_tables_in_the_docs_are_up_to_date() {
        let page = include_str!("../../docs/metrics.md");
        let (_, rest) = page.split_once("<!-- metrics: begin -->").unwrap();
        let (committed, _) = rest.split_once("<!-- metrics: end -->").unwrap();
        let tables = tables();
        assert!(
            committed.trim() == tables.trim(),
            "put this between the markers in docs/metrics.md:\n\n{tables}"
        );
    }

    #[test]
    fn every_family_is_declared_once_with_its_unit() {
        // OpenMetrics declares a counter without its ending.
        let declared = |family: &&Family| family.name.trim_end_matches("_total");
        let names: BTreeSet<_> = FAMILIES.iter().map(declared).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for Family { name, kind, about, .. } in FAMILIES {
            let is_counter = matches!(kind, Kind::Counter | Kind::SecondsCounter);
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            assert_eq!(name.ends_with("_seconds_total"), *kind == Kind::SecondsCounter, "{name}");
            assert!(about.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn a_page_has_only_declared_families() {
        let metrics = Metrics::new();
        let _plugin = metrics.plugin("p");
        metrics.isolated("uid", 1);
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        for line in metrics.render().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            assert!(names.contains(line.split(' ').next().unwrap()), "{line}");
        }
    }
}
