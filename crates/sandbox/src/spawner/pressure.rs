//! Watches the memory of the container itself.
//!
//! A pass tells which request uses memory, but takes time, and cannot see all
//! memory. The container's usage is one number that includes everything. It tells
//! early that a pass is needed, and that the container is about to be full.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Time between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Longest wait for a pass while the container is almost full.
const PATIENCE: Duration = Duration::from_millis(20);

/// Growth by this part of the limit makes a pass due, as a divisor.
const GROWTH: u64 = 32;

/// The container is almost full if less than this part of the limit is free, and
/// it has grown by that part since the last pass, as divisors.
const MARGIN: u64 = 10;
const FILLING: u64 = 256;

/// It is also almost full if it would be full after this time, growing as it has
/// since the last pass began, and no more than this part is free, as a divisor.
const HORIZON: Duration = Duration::from_millis(60);
const MOST_MARGIN: u64 = 4;

/// Time for a request that was ended to give its memory back.
const AFTERMATH: Duration = Duration::from_millis(100);

/// Files with the usage, of version 2 and of version 1.
const USAGE: [&str; 2] = ["memory.current", "memory.usage_in_bytes"];

/// Names in the table of usage: memory that the kernel frees when it needs some.
const FREEABLE: [[&str; 2]; 2] =
    [["inactive_file", "total_inactive_file"], ["active_file", "total_active_file"]];
const SLAB: &str = "slab_reclaimable";

/// Pages of files, and those of them in memory.
const CACHE: [&str; 2] = ["file", "total_cache"];
const SHMEM: [&str; 2] = ["shmem", "total_shmem"];

/// Bytes on swap: a file of version 2, which are not in its usage, and the name in the table
/// of version 1.
const SWAP_FILE: &str = "memory.swap.current";
const SWAP: [&str; 1] = ["total_swap"];

/// Longest text of a number.
const DIGITS: usize = 24;

/// The usage of the container as the kernel tells it.
#[derive(Debug)]
pub(super) struct ContainerMemory {
    usage: File,
    table: PathBuf,
}

impl ContainerMemory {
    /// Finds the files of this process's own cgroup.
    pub(super) fn find() -> Option<Self> {
        let path = USAGE.iter().find_map(|name| cmp_procfs::own_cgroup_file(name).ok()?)?;
        let table = path.with_file_name("memory.stat");
        Some(Self { usage: File::open(path).ok()?, table })
    }

    fn used(&self) -> Option<u64> {
        let mut text = [0; DIGITS];
        let length = self.usage.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
    }

    /// Bytes that can be freed at once.
    fn freeable(&self) -> u64 {
        fs::read_to_string(&self.table).map_or(0, |table| freeable(&table))
    }

    /// Bytes on swap or in memory, without pages of files on disks.
    fn without_disks(&self) -> Option<u64> {
        let table = fs::read_to_string(&self.table).unwrap_or_default();
        let pages = of_disks(&table).unwrap_or_default();
        let file = fs::read_to_string(self.table.with_file_name(SWAP_FILE)).ok();
        let swap = file.and_then(|text| text.trim().parse().ok()).or_else(|| amount(&table, &SWAP));
        Some(self.used()?.saturating_sub(pages).saturating_add(swap.unwrap_or_default()))
    }
}

fn freeable(table: &str) -> u64 {
    let pages = FREEABLE.iter().filter_map(|names| amount(table, names));
    pages.chain(amount(table, &[SLAB])).sum()
}

/// Pages of files on disks. Those that can be freed are no measure: memory that a process gave
/// back with `MADV_FREE`, and uses again, is among them.
fn of_disks(table: &str) -> Option<u64> {
    Some(amount(table, &CACHE)?.saturating_sub(amount(table, &SHMEM)?))
}

/// The amount with the last of these names that the table has. Version 1 has each name twice:
/// with `total_`, groups below are included.
fn amount(table: &str, names: &[&str]) -> Option<u64> {
    let of = |name: &str| {
        let mut lines = table.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(other, _)| *other == name)?.1.trim().parse::<u64>().ok()
    };
    names.iter().rev().find_map(|name| of(name))
}

/// The state of the container's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Calm,
    /// Much more is used than at the last pass.
    Growing,
    /// Almost nothing is free.
    Full,
}

/// Looks at the memory of the container while requests run.
#[derive(Debug)]
pub(super) struct Pressure {
    memory: Option<ContainerMemory>,
    next: Option<Instant>,
    /// Usage when the last pass began, and that time.
    base: Option<(u64, Instant)>,
    /// Level at the last look.
    level: Level,
    /// The container has been almost full since then.
    full: Option<Instant>,
    /// Nothing is ended until then.
    pause: Option<Instant>,
}

impl Pressure {
    /// `memory` is `None` if nobody needs to look.
    pub(super) fn new(memory: Option<ContainerMemory>) -> Self {
        Self { memory, next: None, base: None, level: Level::Calm, full: None, pause: None }
    }

    /// Time of the next look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Requests begin to run.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.memory.is_some() && self.next.is_none() {
            self.next = Some(now + PAUSE);
        }
    }

    /// No request runs.
    pub(super) fn end(&mut self) {
        (self.next, self.base, self.full) = (None, None, None);
        self.level = Level::Calm;
    }

    /// A pass begins: growth counts from now.
    pub(super) fn restart(&mut self, now: Instant) {
        if self.next.is_some() {
            let used = self.memory.as_ref().and_then(ContainerMemory::used);
            self.base = used.map(|used| (used, now));
        }
    }

    /// A request was ended, and is about to give its memory back.
    pub(super) fn relieve(&mut self, now: Instant) {
        self.restart(now);
        (self.level, self.full, self.pause) = (Level::Calm, None, Some(now + AFTERMATH));
    }

    /// Looks, if it is time.
    pub(super) fn look(&mut self, limit: Option<u64>, now: Instant) -> Level {
        if self.next.is_none_or(|next| next > now) {
            return Level::Calm;
        }
        self.next = Some(now + PAUSE);
        let Some((memory, limit)) = self.memory.as_ref().zip(limit) else { return Level::Calm };
        let Some(used) = memory.used() else { return Level::Calm };
        let (base, since) = *self.base.get_or_insert((used, now));
        let growth = Growth { base, used, time: now.saturating_duration_since(since) };
        self.level = level(limit, growth, || memory.freeable());
        let is_full = self.level == Level::Full && self.pause.is_none_or(|pause| pause <= now);
        self.full = is_full.then(|| self.full.unwrap_or(now));
        self.level
    }

    /// Memory that the container uses, on swap, too, without pages of files on disks; `None` if
    /// nobody knows.
    pub(super) fn used(&self) -> Option<u64> {
        self.memory.as_ref().and_then(ContainerMemory::without_disks)
    }

    /// Returns true if the container uses much more than at the last pass.
    pub(super) fn has_grown(&self) -> bool {
        self.level > Level::Calm
    }

    /// Returns true if the container is almost full.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Returns true if the container has been almost full for so long that
    /// waiting for a pass is dangerous.
    pub(super) fn is_urgent(&self, now: Instant) -> bool {
        self.full.is_some_and(|full| now.saturating_duration_since(full) >= PATIENCE)
    }
}

/// Usage at two times.
#[derive(Clone, Copy, Debug)]
struct Growth {
    base: u64,
    used: u64,
    time: Duration,
}

impl Growth {
    fn grown(self) -> u64 {
        self.used.saturating_sub(self.base)
    }

    /// The same growth for another time. Less than two looks tell nothing.
    fn projected(self, time: Duration) -> u64 {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (part, whole) = (micros(time), micros(self.time));
        let is_known = self.time >= 2 * PAUSE;
        if is_known { self.grown().saturating_mul(part) / whole.max(1) } else { 0 }
    }
}

/// Memory that the kernel frees by itself fills every container, so growth
/// matters in addition to what is left.
fn level(limit: u64, growth: Growth, freeable: impl FnOnce() -> u64) -> Level {
    let (grown, used) = (growth.grown(), growth.used);
    let margin = growth.projected(HORIZON).min(limit / MOST_MARGIN).max(limit / MARGIN);
    let is_full = grown >= limit / FILLING
        && limit.saturating_sub(used) < margin
        && limit.saturating_sub(used.saturating_sub(freeable())) < margin;
    if is_full {
        Level::Full
    } else if grown >= limit / GROWTH {
        Level::Growing
    } else {
        Level::Calm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_makes_a_pass_due_and_little_rest_ends_a_request() {
        let slow = Duration::from_hours(1);
        let of = |base, used, freeable| level(3200, Growth { base, used, time: slow }, || freeable);
        assert_eq!(of(0, 99, 0), Level::Calm);
        assert_eq!(of(0, 100, 0), Level::Growing);
        assert_eq!(of(0, 2880, 0), Level::Growing);
        assert_eq!(of(0, 2881, 0), Level::Full);
        assert_eq!(of(0, 2881, 1), Level::Growing, "a file can go");
        assert_eq!(of(3100, 3111, 0), Level::Calm, "it has been so before");
        assert_eq!(of(3100, 3112, 0), Level::Full);
        assert_eq!(of(3100, 10, 0), Level::Calm);
    }

    #[test]
    fn fast_growth_ends_a_request_earlier() {
        let in_time = |used, time| level(3200, Growth { base: 2000, used, time }, || 0);
        assert_eq!(in_time(2600, 2 * HORIZON), Level::Growing, "300 more, of 600");
        assert_eq!(in_time(2600, HORIZON), Level::Growing, "600 more, of 600");
        assert_eq!(in_time(2700, HORIZON), Level::Full, "700 more, of 500");
        assert_eq!(in_time(2390, PAUSE), Level::Growing, "too short to tell");
        assert_eq!(in_time(2300, 2 * PAUSE), Level::Growing, "900 more, of 900");
        assert_eq!(in_time(2390, 2 * PAUSE), Level::Growing, "a quarter is free");
    }

    #[test]
    fn memory_that_can_be_freed_is_read_in_both_versions() {
        let new = "anon 1\ninactive_file 2\nactive_file 4\nslab_reclaimable 8\nshmem 16\n";
        assert_eq!(freeable(new), 14);
        let old = "cache 1\ninactive_file 2\nactive_file 4\ntotal_inactive_file 32\n\
                   total_active_file 64\ntotal_shmem 128\n";
        assert_eq!(freeable(old), 96);
    }

    #[test]
    fn memory_that_was_given_back_and_is_used_again_is_no_page_of_a_disk() {
        let new = "anon 64\nfile 24\nshmem 16\ninactive_file 68\n";
        assert_eq!(of_disks(new), Some(8));
        let old = "cache 1\nshmem 1\ntotal_cache 24\ntotal_shmem 16\ntotal_inactive_file 68\n";
        assert_eq!(of_disks(old), Some(8));
        assert_eq!(of_disks("cache 1\ntotal_cache 24\n"), None);
    }

    /// A container whose usage is in a file, 100 at first.
    fn container() -> (tempfile::TempDir, PathBuf, Pressure) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.current");
        fs::write(&path, "100\n").unwrap();
        let (usage, table) = (File::open(&path).unwrap(), directory.path().join("none"));
        let pressure = Pressure::new(Some(ContainerMemory { usage, table }));
        (directory, path, pressure)
    }

    #[test]
    fn memory_on_swap_is_used_in_both_versions() {
        let (directory, _path, pressure) = container();
        assert_eq!(pressure.used(), Some(100));
        let write = |name, text| fs::write(directory.path().join(name), text).unwrap();
        write("none", "cache 9\ntotal_cache 30\ntotal_shmem 10\nswap 1\ntotal_swap 5\n");
        assert_eq!(pressure.used(), Some(100 - 20 + 5));
        write("none", "file 30\nshmem 10\nswapcached 3\n");
        write(SWAP_FILE, "7\n");
        assert_eq!(pressure.used(), Some(100 - 20 + 7));
    }

    #[test]
    fn the_usage_is_read_again_and_again() {
        let (_directory, path, mut pressure) = container();
        let start = Instant::now();
        let at = |step: u32| start + PAUSE * step;
        assert_eq!(pressure.due(), None);
        pressure.begin(start);
        assert_eq!(pressure.look(Some(3200), start), Level::Calm, "not yet");
        assert_eq!(pressure.look(Some(3200), at(1)), Level::Calm);
        fs::write(&path, "3100\n").unwrap();
        assert_eq!(pressure.look(Some(3200), at(2)), Level::Full);
        assert!(pressure.is_full() && !pressure.is_urgent(at(3)) && pressure.is_urgent(at(20)));
        pressure.end();
        assert!(pressure.due().is_none() && !pressure.is_full());
    }

    #[test]
    fn a_request_that_was_ended_has_time_to_give_its_memory_back() {
        let (_directory, path, mut pressure) = container();
        let start = Instant::now();
        let at = |step: u32| start + PAUSE * step;
        pressure.begin(start);
        pressure.look(Some(3200), at(1));
        fs::write(&path, "3100\n").unwrap();
        pressure.look(Some(3200), at(2));
        assert!(pressure.is_full());
        pressure.relieve(at(3));
        assert!(!pressure.is_full());
        assert_eq!(pressure.look(Some(3200), at(3)), Level::Calm);
        fs::write(&path, "3150\n").unwrap();
        assert_eq!(pressure.look(Some(3200), at(4)), Level::Full);
        assert!(!pressure.is_full(), "memory may still come back");
        pressure.look(Some(3200), at(14));
        assert!(pressure.is_full());
        pressure.restart(at(14));
        assert_eq!(pressure.look(Some(3200), at(15)), Level::Calm);
        assert!(!pressure.is_full());
        assert_eq!(pressure.look(None, at(16)), Level::Calm, "without a limit");
    }
}
