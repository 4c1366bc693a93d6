//! Adds up the usage of one request from passes and measurements. Pure.

use std::time::Duration;

use super::{
    census::{Row, Volume},
    meter::{Gauge, THREAD},
    rise::Rise,
};
use crate::wire::{file_memory::memory_of_files, message::RequestLimits, usage::LeaseUsage};

/// A limit is near if the work volume has grown by this part of the rest.
const NEAR: u64 = 2;

/// Usage of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// The last pass; `None` if it could not see the processes.
    row: Option<Row>,
    sockets: u64,
    /// Bytes in connections that an earlier request with the same UID has left to the
    /// kernel; `None` until a pass has counted sockets.
    inherited: Option<u64>,
    cpu: Duration,
    /// CPU time of processes that ended without a parent that waited for them.
    lost: u64,
    /// Result of the last measurement.
    gauge: Gauge,
    /// Growth of the work volume since then.
    growth: Volume,
    /// Growth of the work volume since the request began.
    pub(super) rise: Rise,
    /// Memory of the container at the last pass; `None` if nobody knows.
    container: Option<u64>,
    /// Numbers of the request's cgroup, if it has one.
    counted: Option<Counted>,
    /// They include its files on the work volume.
    has_files: bool,
    peak: u64,
    is_known: bool,
    reported: Option<LeaseUsage>,
}

/// The kernel's own numbers of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Bytes of memory without files on disks, now and at most.
    pub(super) memory: u64,
    pub(super) peak: u64,
    /// Bytes of the kernel's own objects, of which files are some.
    pub(super) objects: u64,
    /// Processes and threads, ours included.
    pub(super) processes: u64,
    pub(super) cpu: Duration,
}

/// Changes since the last pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// CPU time that the request has used.
    pub(super) cpu: Duration,
    /// Processes have started or ended. They may have used CPU time that nothing
    /// shows.
    pub(super) has_changed: bool,
}

impl Tally {
    /// Tells what the container uses: no request has more, however many of its processes
    /// show the same pages.
    pub(super) fn within(&mut self, container: Option<u64>) {
        self.container = container;
    }

    /// Adds a pass; `row` is `None` if the request has no process. `tick` is the
    /// unit of CPU time.
    pub(super) fn surveyed(&mut self, row: Option<&Row>, tick: Duration) -> Progress {
        let row = row.copied().unwrap_or_default();
        let before = self.row.unwrap_or_default();
        let has_changed = row.members != before.members;
        self.lost = self.lost.saturating_add(before.ticks.saturating_sub(row.ticks));
        let ticks = row.ticks.saturating_add(self.lost);
        let cpu = tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)).max(self.cpu);
        let progress = Progress { cpu: cpu.saturating_sub(self.cpu), has_changed };
        self.cpu = cpu;
        if let Some(sockets) = row.sockets {
            let inherited = self.inherited.map_or(row.orphans, |before| before.min(row.orphans));
            self.sockets = sockets.saturating_sub(inherited);
            self.inherited = Some(inherited);
        }
        if row.processes == 0 {
            self.sockets = 0;
            (self.gauge.memory, self.gauge.plain) = (0, 0);
        }
        self.row = Some(row);
        self.is_known = true;
        self.peak = self.peak.max(self.memory());
        progress
    }

    /// Adds a pass that could not see the processes.
    pub(super) fn unseen(&mut self) -> Progress {
        self.row = None;
        Progress { cpu: Duration::ZERO, has_changed: true }
    }

    /// Adds the kernel's numbers, which are precise and include ended processes.
    /// `has_files` means that files on the work volume are in its memory.
    pub(super) fn counted(
        &mut self,
        counted: Counted,
        has_files: bool,
        seen: Progress,
    ) -> Progress {
        (self.counted, self.has_files) = (Some(counted), has_files);
        let unseen = counted.cpu.saturating_sub(self.cpu);
        self.cpu = self.cpu.max(counted.cpu);
        self.is_known = true;
        self.peak = self.peak.max(self.without_files(counted.peak)).max(self.memory());
        Progress { cpu: seen.cpu + unseen, has_changed: false }
    }

    /// Adds growth of the work volume. Nobody knows which request caused it.
    pub(super) fn volume_grew(&mut self, growth: Volume) {
        self.growth.bytes = self.growth.bytes.saturating_add(growth.bytes);
        self.growth.inodes = self.growth.inodes.saturating_add(growth.inodes);
    }

    /// A measurement begins.
    pub(super) fn measuring(&mut self) {
        self.growth = Volume::default();
    }

    /// Returns true if the request may soon exceed a limit, or does already.
    pub(super) fn is_near(&self, limits: &RequestLimits) -> bool {
        let is_over = limits.memory.is_some_and(|memory| self.memory() > memory);
        let is_close = |used: u64, growth: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| growth.saturating_mul(NEAR) >= limit.saturating_sub(used))
        };
        is_over
            || is_close(self.gauge.disk, self.growth.bytes, limits.disk)
            || is_close(self.gauge.files, self.growth.inodes, limits.files)
    }

    /// Adds a measurement.
    pub(super) fn measured(&mut self, gauge: Gauge) {
        self.gauge = gauge;
        self.is_known = true;
        self.peak = self.peak.max(self.memory());
    }

    /// Memory now. The last measurement counted shared pages once, and found
    /// memory that no process shows; both still apply.
    pub(super) fn memory(&self) -> u64 {
        if let Some(counted) = &self.counted {
            return self.without_files(counted.memory);
        }
        let Some(row) = &self.row else { return self.gauge.memory };
        let plain = plain(row).saturating_add(self.sockets);
        let most = self.container.map(|used| used.saturating_add(self.sockets));
        let shown = plain.saturating_add(self.gauge.memory).saturating_sub(self.gauge.plain);
        shown.min(most.unwrap_or(u64::MAX))
    }

    /// Memory that its files take if they are in memory. The estimate for what is not in
    /// them may be higher than what the kernel counts for all.
    fn file_memory(&self) -> u64 {
        let Gauge { disk, files, .. } = self.gauge;
        let most = self.counted.map_or(u64::MAX, |counted| disk.saturating_add(counted.objects));
        memory_of_files(disk, files).min(most)
    }

    /// The part of the kernel's number that its processes use.
    fn without_files(&self, counted: u64) -> u64 {
        let files = if self.has_files { self.file_memory() } else { 0 };
        counted.saturating_sub(files)
    }

    /// Processes and threads in the last pass.
    pub(super) fn processes(&self) -> u64 {
        self.row.map_or(0, |row| row.processes)
    }

    /// Local ports that it may have, in the last pass.
    pub(super) fn ports(&self) -> u64 {
        self.row.map_or(0, |row| row.ports)
    }

    /// Threads that ran or waited for a processor in the last pass.
    pub(super) fn running(&self) -> u64 {
        self.row.map_or(0, |row| row.running)
    }

    /// Bytes in buffers of sockets.
    pub(super) fn sockets(&self) -> u64 {
        self.sockets
    }

    /// True if a pass has counted sockets.
    pub(super) fn knows_sockets(&self) -> bool {
        self.inherited.is_some()
    }

    /// CPU time so far.
    pub(super) fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Everything, for a report.
    pub(super) fn usage(&self, lease: u64) -> LeaseUsage {
        LeaseUsage {
            lease,
            memory: self.memory(),
            disk: self.gauge.disk,
            files: self.gauge.files,
            processes: self.counted.map_or(self.processes(), |counted| counted.processes),
            cpu_us: u64::try_from(self.cpu.as_micros()).unwrap_or(u64::MAX),
            peak_memory: self.peak,
            file_memory: self.file_memory(),
        }
    }

    /// The usage, if it has changed since the last report.
    pub(super) fn report(&mut self, lease: u64) -> Option<LeaseUsage> {
        let usage = Some(self.usage(lease)).filter(|_| self.is_known);
        (usage != self.reported).then(|| self.reported = usage).and(usage)
    }
}

/// Memory that processes show, and the kernel's for their threads.
fn plain(row: &Row) -> u64 {
    let threads = row.processes.saturating_mul(THREAD);
    [row.own, row.shared, row.tables, threads].into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(10);
    const MIB: u64 = 1 << 20;

    fn row(own: u64, ticks: u64, members: u64) -> Row {
        Row { processes: 1, own, ticks, members, ..Row::default() }
    }

    #[test]
    fn cpu_time_never_falls_when_processes_end() {
        let mut tally = Tally::default();
        let used = |progress: Progress| (progress.cpu.as_millis(), progress.has_changed);
        assert_eq!(used(tally.surveyed(Some(&row(0, 10, 1)), TICK)), (100, true));
        assert_eq!(used(tally.surveyed(Some(&row(0, 12, 1)), TICK)), (20, false));
        assert_eq!(used(tally.surveyed(Some(&row(0, 3, 2)), TICK)), (0, true), "one has ended");
        assert_eq!(used(tally.surveyed(Some(&row(0, 5, 2)), TICK)), (20, false));
        assert_eq!(used(tally.surveyed(None, TICK)), (0, true));
        assert_eq!(tally.cpu(), 14 * TICK);
    }

    #[test]
    fn a_measurement_corrects_later_passes() {
        let mut tally = Tally::default();
        tally.surveyed(Some(&row(100 * MIB, 0, 1)), TICK);
        assert_eq!(tally.memory(), 100 * MIB + THREAD);
        // Processes show 100 MiB, of which 40 are shared, and 5 are hidden.
        let gauge = Gauge { plain: 100 * MIB, memory: 65 * MIB, ..Gauge::default() };
        tally.measured(gauge);
        assert_eq!(tally.memory(), 65 * MIB + THREAD);
        tally.surveyed(Some(&row(110 * MIB, 0, 1)), TICK);
        assert_eq!(tally.memory(), 75 * MIB + THREAD);
        tally.surveyed(None, TICK);
        assert_eq!((tally.memory(), tally.usage(1).peak_memory), (0, 100 * MIB + THREAD));
    }

    #[test]
    fn a_request_has_no_more_memory_than_the_container() {
        let mut tally = Tally::default();
        tally.within(Some(90 * MIB));
        tally.surveyed(Some(&Row { sockets: Some(MIB), ..row(600 * MIB, 0, 1) }), TICK);
        assert_eq!(tally.memory(), 91 * MIB);
        tally.measured(Gauge { plain: 600 * MIB, memory: 70 * MIB, ..Gauge::default() });
        assert_eq!(tally.memory(), 71 * MIB + THREAD);
        let LeaseUsage { peak_memory, .. } = tally.usage(1);
        assert_eq!(peak_memory, 91 * MIB);
    }

    #[test]
    fn buffers_of_sockets_stay_until_they_are_counted_again() {
        let mut tally = Tally::default();
        let mut row = row(0, 0, 1);
        row.sockets = Some(MIB);
        tally.surveyed(Some(&row), TICK);
        row.sockets = None;
        tally.surveyed(Some(&row), TICK);
        assert_eq!(tally.memory(), MIB + THREAD);
        row.sockets = Some(0);
        tally.surveyed(Some(&row), TICK);
        assert_eq!(tally.memory(), THREAD);
    }

    #[test]
    fn hidden_memory_and_buffers_end_with_the_processes() {
        let mut tally = Tally::default();
        tally.surveyed(Some(&Row { sockets: Some(MIB), ..row(MIB, 0, 1) }), TICK);
        tally.measured(Gauge { plain: MIB, memory: 3 * MIB, ..Gauge::default() });
        assert_eq!(tally.sockets(), MIB);
        tally.surveyed(None, TICK);
        assert_eq!((tally.memory(), tally.sockets()), (0, 0));
    }

    #[test]
    fn a_request_is_near_when_it_seems_to_have_exceeded_a_limit_or_may_have() {
        let (memory, disk, files) = (Some(10 * MIB), Some(10 * MIB), Some(10));
        let limits = RequestLimits { memory, disk, files, ..RequestLimits::default() };
        let mut tally = Tally::default();
        tally.surveyed(Some(&row(9 * MIB, 0, 1)), TICK);
        tally.volume_grew(Volume { bytes: 4 * MIB, inodes: 4 });
        assert!(!tally.is_near(&limits));
        let mut written = tally;
        written.volume_grew(Volume { bytes: MIB, inodes: 0 });
        assert!(written.is_near(&limits));
        let mut created = tally;
        created.volume_grew(Volume { bytes: 0, inodes: 1 });
        assert!(created.is_near(&limits));
        tally.surveyed(Some(&row(11 * MIB, 0, 1)), TICK);
        assert!(tally.is_near(&limits));
    }

    #[test]
    fn connections_that_an_earlier_request_has_left_do_not_count() {
        let mut tally = Tally::default();
        let passes = [(5, 5, 0), (7, 6, 2), (2, 1, 1), (7, 6, 6)];
        for (sockets, orphans, counted) in passes {
            let sockets = Some(sockets * MIB);
            tally.surveyed(Some(&Row { sockets, orphans: orphans * MIB, ..row(0, 0, 1) }), TICK);
            assert_eq!(tally.sockets(), counted * MIB);
        }
    }

    #[test]
    fn numbers_of_the_kernel_replace_those_of_processes() {
        let mut tally = Tally::default();
        let seen = tally.surveyed(Some(&row(100 * MIB, 10, 1)), TICK);
        tally.measured(Gauge { disk: 4 * MIB, files: 1, ..Gauge::default() });
        let files = memory_of_files(4 * MIB, 1);
        let (memory, peak, objects) = (45 * MIB, 65 * MIB, MIB);
        let counted = Counted { memory, peak, objects, processes: 7, cpu: 30 * TICK };
        let progress = tally.counted(counted, true, seen);
        assert_eq!(progress, Progress { cpu: 30 * TICK, has_changed: false });
        let LeaseUsage { memory, peak_memory, processes, cpu_us, .. } = tally.usage(1);
        assert_eq!((memory, processes, cpu_us), (45 * MIB - files, 7, 300_000));
        assert_eq!(peak_memory, 100 * MIB + THREAD, "seen in an earlier pass");
        tally.counted(Counted { peak: 205 * MIB, ..counted }, true, seen);
        assert_eq!(tally.usage(1).peak_memory, 205 * MIB - files);
    }

    #[test]
    fn files_take_no_more_of_the_memory_than_the_kernel_counts() {
        let mut tally = Tally::default();
        // 10,000 empty files as Linux 6.12 counts them, and 20 MiB of processes.
        let (files, objects) = (10_000, 9_683_624);
        tally.measured(Gauge { files, ..Gauge::default() });
        let memory = objects + 20 * MIB;
        let counted = Counted { memory, peak: memory, objects, ..Counted::default() };
        tally.counted(counted, true, Progress::default());
        let LeaseUsage { memory, file_memory, .. } = tally.usage(1);
        assert_eq!((memory, file_memory), (20 * MIB, objects));
        assert!(memory_of_files(0, files) > objects, "the estimate is higher");
    }

    #[test]
    fn files_that_are_measured_later_are_not_counted_twice() {
        let mut tally = Tally::default();
        let counted = Counted { memory: 210 * MIB, peak: 210 * MIB, ..Counted::default() };
        tally.counted(counted, true, Progress::default());
        assert_eq!(tally.usage(1).memory, 210 * MIB, "nobody knows its files yet");
        tally.measured(Gauge { disk: 200 * MIB, ..Gauge::default() });
        let LeaseUsage { memory, file_memory, .. } = tally.usage(1);
        assert_eq!((memory, file_memory), (10 * MIB, 200 * MIB));
    }

    #[test]
    fn usage_is_reported_when_it_has_changed() {
        let mut tally = Tally::default();
        assert_eq!(tally.report(7), None, "nothing is known yet");
        tally.surveyed(Some(&row(MIB, 0, 1)), TICK);
        assert_eq!(tally.report(7).map(|usage| usage.memory), Some(MIB + THREAD));
        assert_eq!(tally.report(7), None);
    }
}
