//! Finds a request's processes and their memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use cmp_procfs::Fields;
use nix::unistd::{Pid, Uid};

use super::{
    Subject,
    totals::{Memory, Totals, Unreadable},
};

/// Memory of the kernel for each thread: its stack and records.
pub(in crate::spawner) const THREAD: u64 = 32 << 10;

/// Memory of the kernel for a filter of system calls of the greatest length, and the number
/// of filters that a worker may have in addition to those of the meter.
const FILTER: u64 = 92 << 10;
const USUAL_FILTERS: u64 = 3;

/// Less memory than this need not be exact.
const WORTHWHILE: u64 = 32 << 20;

/// One process of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// A thread that still runs. The first thread may have ended before the
    /// others, and then shows no memory.
    pub(super) thread: u32,
    memory: Memory,
    has_threads: bool,
    /// Filters of system calls of the first thread.
    filters: u64,
}

/// Fields of `/proc/PID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    parent: u32,
    user: u32,
    /// `None` for a process that has ended or is ending.
    memory: Option<Memory>,
    /// There is more than one thread.
    has_threads: bool,
    /// Filters of system calls.
    filters: u64,
}

/// All processes of a request.
pub(super) fn members(subject: &Subject<'_>) -> Result<Vec<Process>, Unreadable> {
    of(subject.identity.map(|identity| identity.tenant), subject.workers)
}

/// IDs of all threads of a tenant; without one, of all below these workers.
pub(in crate::spawner) fn tenant_threads(tenant: Option<Uid>, workers: &[Pid]) -> Vec<u32> {
    let members = of(tenant, workers).unwrap_or_default();
    members.iter().flat_map(|process| threads(process.pid)).collect()
}

fn of(tenant: Option<Uid>, workers: &[Pid]) -> Result<Vec<Process>, Unreadable> {
    let mut all = BTreeMap::new();
    for pid in cmp_procfs::pids().map_err(|_error| Unreadable)? {
        if let Some(status) = read(Fields::status(pid)) {
            all.insert(pid, status);
        }
    }
    let chosen = match tenant {
        Some(tenant) => of_user(&all, tenant),
        None => below(&all, workers.iter().map(|pid| pid.as_raw().unsigned_abs())),
    };
    let members = chosen.into_iter().filter_map(|pid| Some((pid, all.get(&pid)?)));
    Ok(members.map(|(pid, status)| known(pid, status)).collect())
}

fn of_user(all: &BTreeMap<u32, Status>, user: Uid) -> Vec<u32> {
    let is_of = |(_, status): &(&u32, &Status)| status.user == user.as_raw();
    all.iter().filter(is_of).map(|(pid, _)| *pid).collect()
}

/// Descendants of the processes in `roots`, without these.
fn below(all: &BTreeMap<u32, Status>, roots: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, status) in all {
        children.entry(status.parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut parents: Vec<u32> = roots.collect();
    let mut seen: BTreeSet<u32> = parents.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            // The tables are read one after another, and IDs may be reused
            // meanwhile, so a circle is possible.
            if seen.insert(*child) {
                found.push(*child);
                parents.push(*child);
            }
        }
    }
    found
}

/// Finds the memory of a process through any of its threads; they share it.
fn known(pid: u32, status: &Status) -> Process {
    let Status { memory, has_threads, filters, .. } = *status;
    let process = |thread, memory| Process { pid, thread, memory, has_threads, filters };
    if let Some(memory) = memory {
        return process(pid, memory);
    }
    for thread in threads(pid) {
        let status = read(Fields::thread_status(pid, thread));
        if let Some(memory) = status.and_then(|status| status.memory) {
            return process(thread, memory);
        }
    }
    process(pid, Memory::default())
}

/// Counts filters of system calls as memory of the kernel, because no pass sees them. Nothing
/// shows if threads share one, so each counts for each thread.
pub(super) fn add_filters(processes: &[Process], totals: &mut Totals) {
    // If this process's own number is unknown, all count.
    let own = Fields::own_status().ok().as_ref().and_then(filters).unwrap_or_default();
    let usual = own.saturating_add(USUAL_FILTERS);
    for process in processes {
        let more = process.filters_beyond(usual);
        totals.kernel_memory(more.saturating_mul(FILTER));
    }
}

/// The threads of a process; none if it has ended.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    cmp_procfs::threads(pid).unwrap_or_default()
}

/// Returns true if the thread still has memory and descriptors. An ending
/// thread has released them.
pub(super) fn is_alive(pid: u32, thread: u32) -> bool {
    let status = read(Fields::thread_status(pid, thread));
    status.is_some_and(|status| status.memory.is_some())
}

/// `None` if the process has ended. Everybody may read this table.
fn read(fields: io::Result<Fields>) -> Option<Status> {
    parse(&fields.ok()?)
}

fn parse(fields: &Fields) -> Option<Status> {
    let threads = fields.number("Threads").unwrap_or(1);
    let memory = || {
        let threads = threads.saturating_mul(THREAD);
        let bytes = |name| fields.bytes(name).unwrap_or_default();
        let own = [fields.bytes("RssAnon")?, bytes("HugetlbPages"), bytes("VmSwap")];
        Some(Memory {
            own: own.into_iter().fold(0, u64::saturating_add),
            shared: bytes("RssShmem"),
            tables: bytes("VmPTE").saturating_add(threads),
        })
    };
    Some(Status {
        parent: fields.id("PPid")?,
        user: fields.id("Uid")?,
        memory: memory(),
        has_threads: threads > 1,
        filters: filters(fields).unwrap_or_default(),
    })
}

/// Linux tells the number since 5.9.
fn filters(fields: &Fields) -> Option<u64> {
    fields.number("Seccomp_filters")
}

/// Adds the memory of all processes. The first sum counts shared pages once for
/// each process; if that matters, exact shares are read.
pub(super) fn add_memory(processes: &[Process], totals: &mut Totals, buffers: u64) {
    let plain = sum(processes.iter().map(|process| process.memory));
    let is_too_much = totals.plain_memory(plain, buffers);
    let is_shared = processes.len() > 1 && plain.own.saturating_add(plain.shared) > WORTHWHILE;
    if is_too_much || is_shared {
        totals.exact_memory(sum(processes.iter().map(Process::share)));
    }
}

fn sum(all: impl Iterator<Item = Memory>) -> Memory {
    all.fold(Memory::default(), |sum, memory| Memory {
        own: sum.own.saturating_add(memory.own),
        shared: sum.shared.saturating_add(memory.shared),
        tables: sum.tables.saturating_add(memory.tables),
    })
}

impl Process {
    /// Sum of the filters that each thread has beyond this number.
    fn filters_beyond(&self, usual: u64) -> u64 {
        if !self.has_threads {
            return self.filters.saturating_sub(usual);
        }
        let of = |thread| filters(&Fields::thread_status(self.pid, thread).ok()?);
        let each = threads(self.pid).into_iter().filter_map(of);
        each.map(|filters| filters.saturating_sub(usual)).fold(0, u64::saturating_add)
    }

    /// The proportional share of a process's memory. If it cannot be read, the
    /// memory counts in full.
    fn share(&self) -> Memory {
        let fields = Fields::read(&format!("/proc/{}/smaps_rollup", self.thread));
        let share = fields.ok().as_ref().and_then(parse_share);
        share.map_or(self.memory, |(own, shared)| Memory { own, shared, ..self.memory })
    }
}

fn parse_share(fields: &Fields) -> Option<(u64, u64)> {
    let bytes = |name| fields.bytes(name).unwrap_or_default();
    let own = [fields.bytes("Pss_Anon")?, bytes("Private_Hugetlb"), bytes("SwapPss")];
    Some((own.into_iter().fold(0, u64::saturating_add), fields.bytes("Pss_Shmem")?))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::wire::message::RequestLimits;

    fn status(parent: u32, user: u32) -> Status {
        Status { parent, user, memory: None, has_threads: false, filters: 0 }
    }

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tx\nState:\tS (sleeping)\nPPid:\t7\nUid:\t5\t6\t6\t6\nVmRSS:\t 9 kB\n\
                    RssAnon:\t       2 kB\nRssFile:\t 9 kB\nRssShmem:\t       3 kB\n\
                    VmPTE:\t 4 kB\nVmSwap:\t 4 kB\nThreads:\t2\nSeccomp_filters:\t3\n";
        let memory = Some(Memory { own: 6144, shared: 3072, tables: 4096 + 2 * THREAD });
        let found = Status { filters: 3, has_threads: true, memory, ..status(7, 5) };
        assert_eq!(parse(&text.into()), Some(found));
        let zombie = "Name:\tx\nState:\tZ (zombie)\nPPid:\t7\nUid:\t5\t5\t5\t5\n";
        assert_eq!(parse(&zombie.into()), Some(status(7, 5)));
        assert_eq!(parse(&"Name:\tUid: 5\n".into()), None);
    }

    #[test]
    fn a_share_is_read() {
        let text = "Rss:   9 kB\nPss:   8 kB\nPss_Anon:    2 kB\nPss_File:  1 kB\nPss_Shmem:  3 kB\n\
                    Swap:  9 kB\nSwapPss:  4 kB\n";
        assert_eq!(parse_share(&text.into()), Some((6144, 3072)));
        assert_eq!(parse_share(&"Rss: 9 kB\nPss: 8 kB\n".into()), None);
    }

    #[test]
    fn filters_count_beyond_the_usual_number() {
        let beyond = |filters| {
            known(7, &Status { memory: Some(Memory::default()), filters, ..status(1, 7) })
                .filters_beyond(5)
        };
        assert_eq!([5, 6, 12].map(beyond), [0, 1, 7]);
    }

    /// The first thread has no filter of its own.
    #[test]
    fn filters_of_every_thread_count() {
        let script = "import ctypes, threading, time; control = ctypes.CDLL(None).prctl\n\
                      control(38, 1, 0, 0, 0); allow = ctypes.c_uint64(6 | 0x7fff0000 << 32)\n\
                      program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))\n\
                      def hold():\n  [control(22, 2, program) for _ in range(7)]\n  all.wait()\n  \
                      time.sleep(60)\n\
                      all = threading.Barrier(21)\n\
                      [threading.Thread(target=hold).start() for _ in range(20)]\n\
                      all.wait(); print('', flush=True)";
        let mut python = Command::new("python3");
        let mut python = python.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        python.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = python.id();
        let process = known(pid, &read(Fields::status(pid)).unwrap());
        let mut totals = Totals::new(RequestLimits::default());
        add_filters(&[process], &mut totals);
        python.kill().unwrap();
        python.wait().unwrap();
        totals.plain_memory(Memory::default(), 0);
        let gauge = totals.reading(0).gauge().unwrap();
        assert_eq!((gauge.plain, gauge.memory), (0, 20 * (7 - USUAL_FILTERS) * FILTER));
    }

    #[test]
    fn descendants_are_found_without_the_process_itself() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 5), (8, 9), (9, 8)];
        let all = parents.into_iter().map(|(pid, parent)| (pid, status(parent, 0))).collect();
        let mut found = below(&all, [2, 8].into_iter());
        found.sort_unstable();
        assert_eq!(found, [3, 4, 9]);
    }

    #[test]
    fn processes_of_a_uid_are_found() {
        let all = BTreeMap::from([(2, status(1, 7)), (3, status(1, 8)), (4, status(3, 7))]);
        assert_eq!(of_user(&all, Uid::from_raw(7)), [2, 4]);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id();
        let status = read(Fields::status(pid)).unwrap();
        let process = known(pid, &status);
        assert!(process.memory.own > 0 && process.share().own > 0);
        assert!(threads(pid).contains(&pid));
        assert!(is_alive(pid, pid));
    }
}
