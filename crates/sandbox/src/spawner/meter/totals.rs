//! Adds up usage and compares it with the limits.

use super::report::{Gauge, Reading};
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Memory of the kernel for a descriptor that an instance of epoll watches. One with a
/// thousand watches counts as one descriptor otherwise.
const WATCH: u64 = 200;

/// More watches than programs have that serve hundreds of connections.
const MANY_WATCHES: u64 = 10_000;

/// A limit is exceeded, so the walk need not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess;

/// The processes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Usage counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    limits: RequestLimits,
    disk: u64,
    files: u64,
    memory: u64,
    plain: u64,
    /// Bytes of files in memory that have no name, or are in directories of the request alone.
    open_memory: u64,
    /// Bytes of memory of the kernel for descriptors, pipes and mappings.
    kernel: u64,
    /// Descriptors that instances of epoll watch.
    watches: u64,
    /// Files that exist but cannot be measured.
    hidden: u64,
    /// Those on the work volume, and the bytes by which it has grown.
    hidden_on_volume: u64,
    growth: u64,
    /// Files in memory that exist but cannot be measured.
    hidden_memory: u64,
    /// Something could not be read.
    is_blind: bool,
}

/// Memory of all processes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) own: u64,
    pub(super) shared: u64,
    /// Page tables, and the kernel's memory for threads.
    pub(super) tables: u64,
}

impl Totals {
    pub(super) fn new(limits: RequestLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns true if a limit requires counting files.
    pub(super) fn counts_files(&self) -> bool {
        self.limits.disk.is_some() || self.limits.files.is_some()
    }

    /// Adds a file or directory that takes this many bytes.
    pub(super) fn file(&mut self, bytes: u64) -> Result<(), Excess> {
        self.files += 1;
        self.disk = self.disk.saturating_add(bytes);
        if self.excess_of_files().is_some() { Err(Excess) } else { Ok(()) }
    }

    fn excess_of_files(&self) -> Option<ExceededLimit> {
        let RequestLimits { disk, files, .. } = self.limits;
        let is_over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used > limit);
        let disk = is_over(self.disk, disk).then_some(ExceededLimit::Disk);
        disk.or_else(|| is_over(self.files, files).then_some(ExceededLimit::Files))
    }

    /// Adds files in memory that have no name, or are in directories of the request alone.
    pub(super) fn memory_file(&mut self, bytes: u64) {
        self.open_memory = self.open_memory.saturating_add(bytes);
    }

    /// Adds memory of the kernel.
    pub(super) fn kernel_memory(&mut self, bytes: u64) {
        self.kernel = self.kernel.saturating_add(bytes);
    }

    /// Adds descriptors that an instance of epoll watches. Fails if they are too many, or
    /// the kernel's memory alone exceeds its limit.
    pub(super) fn watches(&mut self, watches: u64) -> Result<(), Excess> {
        self.watches = self.watches.saturating_add(watches);
        self.kernel_memory(WATCH.saturating_mul(watches));
        let is_too_much = self.limits.memory.is_some_and(|memory| self.kernel > memory);
        if is_too_much || self.has_too_many_watches() { Err(Excess) } else { Ok(()) }
    }

    /// True if the watches may be those of a request that hides others behind them.
    pub(super) fn has_many_watches(&self) -> bool {
        self.watches > MANY_WATCHES
    }

    fn has_too_many_watches(&self) -> bool {
        self.limits.watches.is_some_and(|limit| self.watches > limit)
    }

    /// Adds files that cannot be measured.
    pub(super) fn hidden(&mut self, files: u64) {
        self.hidden = self.hidden.saturating_add(files);
    }

    /// Adds a file that cannot be measured on the work volume, which has grown by some bytes
    /// since the request began.
    pub(super) fn hidden_on_volume(&mut self, growth: u64) {
        (self.hidden_on_volume, self.growth) = (self.hidden_on_volume.saturating_add(1), growth);
    }

    /// Adds files in memory that cannot be measured.
    pub(super) fn hidden_memory(&mut self, files: u64) {
        self.hidden_memory = self.hidden_memory.saturating_add(files);
    }

    /// Remembers that something could not be read.
    pub(super) fn blind(&mut self) {
        self.is_blind = true;
    }

    /// The sum for this memory of processes. Shared memory may be the same as
    /// files in memory, so the larger of both counts.
    fn sum(&self, memory: Memory) -> u64 {
        let Memory { own, shared, tables } = memory;
        let parts = [own, shared.max(self.open_memory), tables, self.kernel];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Sets the memory as processes show it. Returns true if it exceeds the
    /// limit together with `buffers`.
    pub(super) fn plain_memory(&mut self, memory: Memory, buffers: u64) -> bool {
        let Memory { own, shared, tables } = memory;
        self.plain = own.saturating_add(shared).saturating_add(tables);
        self.memory = self.sum(memory);
        self.is_too_much(buffers)
    }

    /// Sets the memory again, with shared pages counted once.
    pub(super) fn exact_memory(&mut self, memory: Memory) {
        self.memory = self.sum(memory);
    }

    fn is_too_much(&self, buffers: u64) -> bool {
        let used = self.memory.saturating_add(buffers);
        self.limits.memory.is_some_and(|memory| used > memory)
    }

    /// The result.
    pub(super) fn reading(&self, buffers: u64) -> Reading {
        let memory = self.is_too_much(buffers).then_some(ExceededLimit::Memory);
        let watches = self.has_too_many_watches().then_some(ExceededLimit::Watches);
        let exceeded = watches.or(memory).or_else(|| self.excess_of_files());
        let Self { plain, memory, disk, files, .. } = *self;
        let hides_files = !self.is_blind && self.hides_too_much(buffers);
        Reading {
            is_complete: !self.is_blind && !hides_files,
            hides_files,
            exceeded: exceeded.map(Into::into),
            gauge: Some(Gauge { plain, memory, disk, files }),
        }
    }

    /// Each file that cannot be measured counts with the largest size that the
    /// kernel allows. All files on the work volume, seen or not, take no more than it has grown.
    fn hides_too_much(&self, buffers: u64) -> bool {
        let RequestLimits { memory, disk, file_size, .. } = self.limits;
        let largest = file_size.unwrap_or(u64::MAX);
        let most = |seen: u64, files: u64| seen.saturating_add(largest.saturating_mul(files));
        let hides = |files: u64, used: u64, limit: Option<u64>| {
            files > 0 && limit.is_some_and(|limit| used > limit)
        };
        let on_volume = most(self.disk, self.hidden_on_volume).min(self.disk.max(self.growth));
        let in_memory = most(self.memory.saturating_add(buffers), self.hidden_memory);
        let files = self.hidden.saturating_add(self.hidden_on_volume);
        hides(files, most(on_volume, self.hidden), disk)
            || hides(self.hidden_memory, in_memory, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::Measurement, *};

    const NONE: RequestLimits = RequestLimits::NONE;

    fn memory(own: u64, shared: u64) -> Memory {
        Memory { own, shared, tables: 0 }
    }

    #[test]
    fn one_byte_or_file_more_exceeds_a_limit() {
        let mut disk = Totals::new(RequestLimits { disk: Some(100), ..NONE });
        assert_eq!(disk.file(60), Ok(()));
        assert_eq!(disk.file(40), Ok(()));
        assert_eq!(disk.file(1), Err(Excess));
        let exceeded = |totals: &Totals| totals.reading(0).measurement();
        assert_eq!(exceeded(&disk), Measurement::Exceeded(ExceededLimit::Disk));
        let mut files = Totals::new(RequestLimits { files: Some(1), ..NONE });
        assert_eq!(files.file(1000), Ok(()));
        assert_eq!(files.file(0), Err(Excess));
        assert_eq!(exceeded(&files), Measurement::Exceeded(ExceededLimit::Files));
    }

    #[test]
    fn without_a_limit_nothing_is_exceeded() {
        let mut totals = Totals::new(NONE);
        assert_eq!(totals.file(u64::MAX), Ok(()));
        assert_eq!(totals.file(u64::MAX), Ok(()));
        totals.hidden(u64::MAX);
        totals.hidden_memory(u64::MAX);
        assert!(!totals.plain_memory(memory(u64::MAX, u64::MAX), 0));
        assert_eq!(totals.reading(0).measurement(), Measurement::WithinLimits);
    }

    #[test]
    fn memory_includes_files_in_memory_and_buffers() {
        let mut totals = Totals::new(RequestLimits { memory: Some(100), ..NONE });
        let mut is_over = |own, shared, buffers| totals.plain_memory(memory(own, shared), buffers);
        assert!(!is_over(60, 40, 0) && is_over(60, 41, 0) && is_over(60, 40, 1));
        totals.memory_file(41);
        let mut is_over = |own, shared| totals.plain_memory(memory(own, shared), 0);
        assert!(is_over(60, 0), "open, and in no process's memory");
        assert!(!is_over(59, 41), "the same bytes are counted once");
        totals.kernel_memory(1);
        assert!(totals.plain_memory(memory(59, 41), 0));
    }

    #[test]
    fn watches_are_counted_and_take_memory() {
        let mut few = Totals::new(RequestLimits { watches: Some(10), ..NONE });
        assert_eq!([10, 1].map(|watches| few.watches(watches)), [Ok(()), Err(Excess)]);
        let exceeded = |totals: &Totals| totals.reading(0).measurement();
        assert_eq!(exceeded(&few), Measurement::Exceeded(ExceededLimit::Watches));
        let mut memory = Totals::new(RequestLimits { memory: Some(10 * WATCH), ..NONE });
        assert_eq!([10, 1].map(|watches| memory.watches(watches)), [Ok(()), Err(Excess)]);
    }

    #[test]
    fn exact_memory_replaces_the_plain_one() {
        let mut totals = Totals::new(RequestLimits { memory: Some(100), ..NONE });
        assert!(totals.plain_memory(memory(150, 0), 0));
        totals.exact_memory(memory(80, 0));
        let reading = totals.reading(0);
        assert_eq!(reading.measurement(), Measurement::WithinLimits);
        let gauge = reading.gauge().unwrap();
        assert_eq!((gauge.plain, gauge.memory), (150, 80));
    }

    #[test]
    fn hidden_files_count_with_the_largest_possible_size() {
        let totals = |hidden, file_size| {
            let mut totals = Totals::new(RequestLimits { disk: Some(100), file_size, ..NONE });
            totals.file(50).unwrap();
            totals.hidden(hidden);
            totals.reading(0).measurement()
        };
        assert_eq!(totals(0, None), Measurement::WithinLimits);
        assert_eq!(totals(2, Some(25)), Measurement::WithinLimits);
        assert_eq!(totals(3, Some(25)), Measurement::Hidden);
        assert_eq!(totals(1, None), Measurement::Hidden, "files of any size");
        let mut memory = Totals::new(RequestLimits { memory: Some(9), file_size: Some(5), ..NONE });
        memory.hidden_memory(1);
        assert_eq!(memory.reading(4).measurement(), Measurement::WithinLimits);
        assert_eq!(memory.reading(5).measurement(), Measurement::Hidden);
    }

    #[test]
    fn hidden_files_on_the_work_volume_take_no_more_than_it_has_grown() {
        let totals = |[elsewhere, growth, file_size]: [u64; 3]| {
            let file_size = Some(file_size);
            let mut totals = Totals::new(RequestLimits { disk: Some(100), file_size, ..NONE });
            totals.file(50).unwrap();
            totals.hidden(elsewhere);
            (0..9).for_each(|_| totals.hidden_on_volume(growth));
            totals.reading(0).measurement()
        };
        for ([elsewhere, growth, file_size], expected) in [
            ([0, 100, 60], Measurement::WithinLimits),
            ([0, 101, 60], Measurement::Hidden),
            ([0, 101, 5], Measurement::WithinLimits),
            ([1, 40, 50], Measurement::WithinLimits),
            ([1, 51, 50], Measurement::Hidden),
            ([2, 0, 26], Measurement::Hidden),
        ] {
            let found = totals([elsewhere, growth, file_size]);
            assert_eq!(found, expected, "{elsewhere} {growth} {file_size}");
        }
    }

    #[test]
    fn a_limit_that_is_exceeded_counts_even_if_something_is_hidden() {
        let mut totals = Totals::new(RequestLimits { disk: Some(1), ..NONE });
        totals.hidden(1);
        assert_eq!(totals.reading(0).measurement(), Measurement::Hidden);
        totals.blind();
        assert_eq!(totals.reading(0).measurement(), Measurement::Unknown);
        let _ = totals.file(2);
        assert_eq!(totals.reading(0).measurement(), Measurement::Exceeded(ExceededLimit::Disk));
    }
}
