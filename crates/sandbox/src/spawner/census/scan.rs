//! One pass over all processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::fd::BorrowedFd,
};

use cmp_procfs::{Fields, Stat};
use nix::unistd::geteuid;

use super::{Ask, End, Equipment, Row, Volume, sockets};
use crate::{kernel::limits, wire::plan::RawUsage};

/// CPU time of each process in ticks, as of the last pass.
#[derive(Debug, Default)]
pub(super) struct History {
    last: BTreeMap<u32, u64>,
    now: BTreeMap<u32, u64>,
}

/// Counts everything once.
pub(super) fn pass(equipment: &Equipment<'_>, history: &mut History, ask: Ask) -> (Vec<Row>, End) {
    count(cmp_procfs::pids(), equipment, history, ask)
}

fn count(
    listed: io::Result<Vec<u32>>,
    equipment: &Equipment<'_>,
    history: &mut History,
    ask: Ask,
) -> (Vec<Row>, End) {
    let before = cpu_time();
    let spawner = equipment.spawner.as_raw().unsigned_abs();
    // Without descriptors or memory, there is no list, or nothing can be read. With the
    // option hidepid, the spawner is hidden, as guards are.
    let is_complete = listed.is_ok() && Fields::status(spawner).is_ok();
    let pids = listed.unwrap_or_default();
    let mut rows = match &equipment.tenants {
        Some(tenants) => of_users(&pids, tenants, history),
        None => of_workers(&pids, spawner, history),
    };
    history.last = std::mem::take(&mut history.now);
    let descriptors = rows.values().fold(0, |sum: u64, row| sum.saturating_add(row.ports));
    let is_asked = ask.sockets || descriptors > equipment.ports;
    let diagnostics = equipment.diagnostics.filter(|_| is_asked);
    let ports = diagnostics.and_then(|asked| count_sockets(asked, equipment, &mut rows).ok());
    let volume = Volume::of(equipment.root).unwrap_or_default();
    let end = End {
        cost_us: cpu_time().saturating_sub(before),
        is_complete,
        bytes: volume.bytes,
        inodes: volume.inodes,
        ports,
    };
    (rows.into_iter().map(|(key, row)| Row { key, ..row }).collect(), end)
}

/// Adds the sockets of each UID to its row. Returns the number of local ports of all.
fn count_sockets(
    asked: BorrowedFd<'_>,
    equipment: &Equipment<'_>,
    rows: &mut BTreeMap<u32, Row>,
) -> io::Result<u64> {
    let shared = BTreeSet::from([geteuid().as_raw()]);
    let users = equipment.tenants.as_ref().unwrap_or(&shared);
    let found = sockets::of_users(asked, users)?;
    if equipment.tenants.is_some() {
        for (user, row) in rows {
            let own = found.get(user).copied().unwrap_or_default();
            (row.sockets, row.orphans, row.ports) = (Some(own.bytes), own.orphans, own.ports);
        }
    }
    Ok(found.values().fold(0, |sum, own| sum + own.ports))
}

/// Rows by UID.
fn of_users(pids: &[u32], tenants: &BTreeSet<u32>, history: &mut History) -> BTreeMap<u32, Row> {
    let mut rows = BTreeMap::new();
    for pid in pids {
        let Ok(status) = Fields::status(*pid) else { continue };
        let Some(user) = status.id("Uid").filter(|user| tenants.contains(user)) else { continue };
        let Ok(stat) = Stat::of(*pid) else { continue };
        let row = rows.entry(user).or_insert_with(Row::default);
        row.add(*pid, &stat, &status);
        row.running = row.running.saturating_add(history.running(*pid, &stat));
    }
    rows
}

/// Rows by child of the spawner. Only the descendants of a child are counted.
fn of_workers(pids: &[u32], spawner: u32, history: &mut History) -> BTreeMap<u32, Row> {
    let all: BTreeMap<u32, Stat> =
        pids.iter().filter_map(|pid| Some((*pid, Stat::of(*pid).ok()?))).collect();
    let mut rows = BTreeMap::new();
    for (pid, stat) in &all {
        let Some(worker) = ancestor(&all, stat, spawner) else { continue };
        let Ok(status) = Fields::status(*pid) else { continue };
        let row = rows.entry(worker).or_insert_with(Row::default);
        row.add(*pid, stat, &status);
        row.running = row.running.saturating_add(history.running(*pid, stat));
    }
    rows
}

/// The ancestor that is a child of the spawner.
fn ancestor(all: &BTreeMap<u32, Stat>, stat: &Stat, spawner: u32) -> Option<u32> {
    let mut at = stat;
    // The tables are read one after another, and IDs may be reused meanwhile,
    // so a circle is possible.
    for _ in 0..all.len() {
        let parent = all.get(&at.parent)?;
        if parent.parent == spawner {
            return Some(at.parent);
        }
        at = parent;
    }
    None
}

impl History {
    /// Threads of a process that run or wait for a processor. The first one may wait for the
    /// others. Threads of a process without CPU time since the last pass are not asked.
    fn running(&mut self, pid: u32, stat: &Stat) -> u64 {
        self.now.insert(pid, stat.ticks);
        let is_idle = self.last.get(&pid).copied().unwrap_or_default() == stat.ticks;
        if stat.threads <= 1 || is_idle {
            return stat.is_running.into();
        }
        let threads = cmp_procfs::threads(pid).unwrap_or_default().into_iter();
        let is_running = |thread| Stat::of_thread(pid, thread).is_ok_and(|stat| stat.is_running);
        threads.filter(|thread| is_running(*thread)).count() as u64
    }
}

impl Row {
    fn add(&mut self, pid: u32, stat: &Stat, status: &Fields) {
        let mut hasher = DefaultHasher::new();
        (pid, stat.started).hash(&mut hasher);
        // The order of processes must not matter.
        self.members = self.members.wrapping_add(hasher.finish());
        self.processes = self.processes.saturating_add(stat.threads.max(1));
        self.ticks = self.ticks.saturating_add(stat.ticks);
        if self.add_memory(status).is_none() && stat.threads > 1 {
            self.add_memory_of_threads(pid);
        }
    }

    /// Adds memory, and room for descriptors. Returns `None` if the process or thread has
    /// neither.
    fn add_memory(&mut self, status: &Fields) -> Option<()> {
        let bytes = |name| status.bytes(name).unwrap_or_default();
        let own = [status.bytes("RssAnon")?, bytes("HugetlbPages"), bytes("VmSwap")];
        self.own = own.into_iter().fold(self.own, u64::saturating_add);
        self.shared = self.shared.saturating_add(bytes("RssShmem"));
        self.tables = self.tables.saturating_add(bytes("VmPTE"));
        let descriptors = status.number("FDSize").unwrap_or_default();
        self.ports = self.ports.saturating_add(descriptors);
        Some(())
    }

    /// The first thread has ended, so another one shows the memory and the descriptors.
    fn add_memory_of_threads(&mut self, pid: u32) {
        for thread in cmp_procfs::threads(pid).unwrap_or_default() {
            let status = Fields::thread_status(pid, thread);
            if status.is_ok_and(|status| self.add_memory(&status).is_some()) {
                return;
            }
        }
    }
}

/// CPU time of this process in microseconds.
fn cpu_time() -> u64 {
    limits::used().map_or(0, |RawUsage { user_us, system_us, .. }| user_us + system_us)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::fd::AsFd,
        process::{Command, Stdio},
        thread,
        time::Duration,
    };

    use nix::{
        errno::Errno,
        unistd::{Pid, getuid},
    };

    use super::*;

    #[test]
    fn without_a_list_of_processes_a_pass_is_incomplete() {
        let root = File::open("/").unwrap();
        let (user, diagnostics, spawner) = (None, None, Pid::this());
        let is_complete = |listed, tenants| {
            let root = root.as_fd();
            let equipment = Equipment { user, tenants, root, diagnostics, spawner, ports: 0 };
            count(listed, &equipment, &mut History::default(), Ask::default()).1.is_complete
        };
        for tenants in [None, Some(BTreeSet::new())] {
            assert!(is_complete(cmp_procfs::pids(), tenants.clone()));
            assert!(!is_complete(Err(Errno::ENFILE.into()), tenants));
        }
    }

    #[test]
    fn processes_of_a_uid_are_counted() {
        let own = getuid().as_raw();
        let pid = std::process::id();
        let rows = of_users(&[pid], &BTreeSet::from([own]), &mut History::default());
        let row = rows[&own];
        assert!(row.processes > 0 && row.own > 0 && row.tables > 0 && row.ports > 0, "{row:?}");
        assert!(of_users(&[pid], &BTreeSet::from([own + 1]), &mut History::default()).is_empty());
    }

    #[test]
    fn memory_on_swap_counts() {
        let mut row = Row::default();
        let text = "RssAnon:\t 1 kB\nHugetlbPages:\t 2 kB\nVmSwap:\t 4 kB\n";
        assert_eq!((row.add_memory(&text.into()), row.own), (Some(()), 7 << 10));
    }

    #[test]
    fn descendants_of_a_worker_are_counted_without_the_worker() {
        let script = "sleep 60 & echo; wait";
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let rows =
            of_workers(&cmp_procfs::pids().unwrap(), std::process::id(), &mut History::default());
        let row = rows[&shell.id()];
        for child in cmp_procfs::pids().unwrap() {
            if Stat::of(child).is_ok_and(|stat| stat.parent == shell.id()) {
                let pid = Pid::from_raw(child.cast_signed());
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            }
        }
        shell.wait().unwrap();
        assert_eq!(row.processes, 1, "{row:?}");
    }

    /// Its first thread waits for 24 that are busy.
    #[test]
    fn busy_threads_run_although_the_first_one_waits() {
        let script = "import sys, threading, zlib; text = bytes(1 << 20)\n\
                      def spin():\n  while True: zlib.crc32(text)\n\
                      [threading.Thread(target=spin).start() for _ in range(24)]\n\
                      print('', flush=True)";
        let mut python = Command::new("python3");
        let mut python = python.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let mut history = History::default();
        // The kernel counts CPU time in ticks.
        let busy = (0..500).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            let stat = Stat::of(python.id()).unwrap();
            (history.running(python.id(), &stat) > 8).then_some(stat)
        });
        let pid = python.id();
        python.kill().unwrap();
        python.wait().unwrap();
        let idle = Stat { ticks: 0, is_running: false, ..busy.unwrap() };
        let running = history.running(pid, &idle);
        assert_eq!(running, 0, "its threads are not asked if it has used no time");
    }

    #[test]
    fn a_process_that_is_replaced_changes_the_members() {
        let own = Stat::own().unwrap();
        let members = |pid| {
            let mut row = Row::default();
            let stat = Stat { started: u64::from(pid), ..own };
            row.add(pid, &stat, &"".into());
            row.members
        };
        assert_ne!(members(7), members(8));
    }
}
