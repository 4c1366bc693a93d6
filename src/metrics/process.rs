//! The version of this program, and metrics of the supervisor's own process with the
//! usual names.

use std::{fs, process, time::SystemTime};

use cmp_procfs::{Fields, Stat};
use cmp_sandbox::{RLIM_INFINITY, Resource, getrlimit};
use metrics::Label;

use super::{Dimension, Family, Kind, Metrics, family};

pub(super) static BUILD_INFO: Family = family(
    ("argocd_cmp_build_info", Kind::Gauge),
    &[Dimension::Version],
    "Version of this program; always 1.",
);
pub(super) static CPU: Family = family(
    ("process_cpu_seconds_total", Kind::SecondsCounter),
    &[],
    "CPU time of the supervisor, without its requests.",
);
pub(super) static RESIDENT: Family = family(
    ("process_resident_memory_bytes", Kind::Gauge),
    &[],
    "Resident memory of the supervisor, without its requests.",
);
pub(super) static VIRTUAL: Family =
    family(("process_virtual_memory_bytes", Kind::Gauge), &[], "Virtual memory of the supervisor.");
pub(super) static OPEN: Family =
    family(("process_open_fds", Kind::Gauge), &[], "Open file descriptors of the supervisor.");
pub(super) static MAX: Family =
    family(("process_max_fds", Kind::Gauge), &[], "Most file descriptors of the supervisor.");
pub(super) static STARTED: Family = family(
    ("process_start_time_seconds", Kind::Gauge),
    &[],
    "Time of the supervisor's start, in seconds since 1970.",
);

/// Microseconds of a tick in `/proc`; the same on all processors that Linux runs on.
const TICK: u64 = 10_000;

impl Metrics {
    /// Sets the metrics that do not change.
    pub(super) fn initialise_process(&self) {
        let build = [Label::new(Dimension::Version.name(), env!("CARGO_PKG_VERSION"))];
        self.gauge(&BUILD_INFO, &build).set(1.0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.gauge(&STARTED, &[]).set(now.as_secs_f64());
        self.read_process();
    }

    /// Reads the figures of this process. They keep their values if `/proc` is not
    /// available.
    pub(super) fn read_process(&self) {
        if let Ok(stat) = Stat::of(process::id()) {
            self.counter(&CPU, &[]).absolute(stat.ticks.saturating_mul(TICK));
        }
        let status = Fields::own_status().ok();
        let bytes = |name| status.as_ref().and_then(|status| status.bytes(name));
        let descriptors = fs::read_dir("/proc/self/fd").map(|list| list.count() as u64).ok();
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft).ok();
        for (family, value) in [
            (&RESIDENT, bytes("VmRSS")),
            (&VIRTUAL, bytes("VmSize")),
            (&OPEN, descriptors),
            (&MAX, limit.filter(|limit| *limit != RLIM_INFINITY)),
        ] {
            if let Some(value) = value {
                self.amount(family, &[], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_memory_and_descriptors() {
        let page = Metrics::new().render();
        for family in [&RESIDENT, &VIRTUAL, &OPEN, &MAX, &STARTED] {
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(family.name));
            let value = lines.find_map(|rest| rest.trim().parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0), "{}: {page}", family.name);
        }
        assert!(page.contains("# TYPE process_cpu_seconds_total counter"), "{page}");
    }
}
