//! The table in Markdown.

use std::{fmt, time::Duration};

use super::load::Load;
use crate::{
    running::Running,
    timings::Timings,
    victim::{Kind, Seen},
};

/// Title of the columns. Times of the victim are p50, p99, maximum, and failures.
pub(crate) const HEADER: &str = "| row | load | generate | match by names | match by command | /livez | /readyz | \
     survivors | quarantined | OOM kills | peak | used after | processor | remark |\n\
     |---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// A load and everything that it did.
pub(crate) struct Line<'a> {
    pub(crate) load: &'a Load,
    pub(crate) pod: &'a Running,
    pub(crate) seen: &'a Seen,
    pub(crate) processor: Duration,
    pub(crate) remark: String,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, pod, seen, processor, remark } = self;
        write!(formatter, "| {} | {} |", load.row, load.name)?;
        for kind in Kind::ALL {
            let cell = seen.of(kind).map_or_else(|| "none".to_owned(), cell);
            write!(formatter, " {cell} |")?;
        }
        let groups = pod.groups();
        let quarantined = pod.metric("argocd_cmp_lease_quarantines_total");
        let quarantined = quarantined.map_or("?".to_owned(), |count| count.to_string());
        let (survivors, kills) = (pod.tenants().len(), groups.oom_kills());
        let (peak, after) = (groups.memory_peak() >> 20, groups.memory() >> 20);
        let fate = if pod.is_alive() { "" } else { "**the container ended**; " };
        write!(
            formatter,
            " {survivors} | {quarantined} | {kills} | {peak} MiB | {after} MiB | {processor:.1?} | {fate}{remark} |"
        )
    }
}

fn cell(timings: &Timings) -> String {
    let milliseconds = |time: Duration| time.as_millis();
    let [p50, p99] = [50, 99].map(|percent| milliseconds(timings.percentile(percent)));
    let (max, failures, calls) = (milliseconds(timings.max()), timings.failures, timings.calls());
    format!("{p50}/{p99}/{max} ms, {failures} of {calls} failed")
}
