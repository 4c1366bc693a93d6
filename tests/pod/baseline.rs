//! The state of a container that nobody uses.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use crate::running::{PATIENCE, Running};

/// Memory that the processes may keep, for caches and for heaps that are not
/// returned.
const KEPT_MEMORY: u64 = 64 << 20;

/// Descriptors that may be open for a moment, for example of a probe.
const KEPT_DESCRIPTORS: usize = 4;

/// Space that directories may keep.
const KEPT_BYTES: u64 = 64 << 10;

/// Time between two measurements.
const PAUSE: Duration = Duration::from_millis(250);

/// Use of resources at one moment.
#[derive(Clone, Debug)]
pub(crate) struct State {
    processes: usize,
    descriptors: usize,
    files: u64,
    bytes: u64,
    resident: u64,
    quarantined: f64,
    in_flight: f64,
}

impl State {
    fn measure(pod: &Running) -> Self {
        let (processes, used) = (pod.processes(), pod.used());
        let ours = [pod.supervisor().descriptors, pod.spawner().descriptors];
        Self {
            processes: processes.len(),
            descriptors: ours.iter().sum(),
            files: used.files,
            bytes: used.bytes,
            resident: processes.iter().map(|process| process.resident).sum(),
            quarantined: pod.metric("argocd_cmp_leases_quarantined").unwrap(),
            in_flight: pod.metric("argocd_cmp_requests_in_flight").unwrap(),
        }
    }

    /// The state as soon as it does not change, so that nothing of earlier requests
    /// counts.
    pub(crate) fn settled(pod: &Running) -> Self {
        let mut last = Self::measure(pod);
        let end = Instant::now() + PATIENCE;
        loop {
            thread::sleep(PAUSE);
            let next = Self::measure(pod);
            if next.in_flight == 0.0 && next.processes == last.processes && next.files == last.files
            {
                return next;
            }
            assert!(Instant::now() < end, "never idle: {next}\n{}", pod.log());
            last = next;
        }
    }

    /// Waits until the container uses no more than this.
    pub(crate) fn assert_reached(&self, pod: &Running) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = Self::measure(pod);
            if now.is_within(self) {
                return;
            }
            let tenants = pod.tenants();
            assert!(
                Instant::now() < end,
                "not back at its baseline:\n  {self} before\n  {now} now\n  of tenants: {tenants:#?}"
            );
            thread::sleep(PAUSE);
        }
    }

    fn is_within(&self, before: &Self) -> bool {
        self.processes <= before.processes
            && self.descriptors <= before.descriptors + KEPT_DESCRIPTORS
            && self.files <= before.files
            && self.bytes <= before.bytes + KEPT_BYTES
            && self.resident <= before.resident + KEPT_MEMORY
            && self.quarantined <= before.quarantined
            && self.in_flight == 0.0
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, descriptors, files, bytes, quarantined, in_flight, .. } = self;
        let megabytes = self.resident >> 20;
        write!(
            formatter,
            "{processes} processes with {megabytes} MiB and {descriptors} descriptors, {files} files \
             with {bytes} bytes, {quarantined} leases quarantined, {in_flight} requests"
        )
    }
}
