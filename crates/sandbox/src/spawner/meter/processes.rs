//! Finds a request's processes and their memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use cmp_procfs::{Fields, is_gone};
use nix::unistd::Uid;

use super::{
    Subject,
    totals::{MeterError, Totals},
};
use crate::wire::exceeded::ExceededLimit;

/// One process of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// A thread that still runs. The first thread may have ended before the
    /// others, and then shows no memory.
    pub(super) thread: u32,
    memory: Memory,
}

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    own: u64,
    shared: u64,
}

/// Fields of `/proc/PID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    parent: u32,
    user: u32,
    /// `None` for a process that has ended or is ending.
    memory: Option<Memory>,
}

/// All processes of a request.
pub(super) fn members(subject: &Subject<'_>) -> Result<Vec<Process>, MeterError> {
    let mut all = BTreeMap::new();
    for pid in cmp_procfs::pids().map_err(|_unreadable| MeterError::Unreadable)? {
        if let Some(status) = read(Fields::status(pid))? {
            all.insert(pid, status);
        }
    }
    let chosen = match subject.identity {
        Some(identity) => of_user(&all, identity.tenant),
        None => below(&all, subject.workers.iter().map(|pid| pid.as_raw().unsigned_abs())),
    };
    let members = chosen.into_iter().filter_map(|pid| Some((pid, all.get(&pid)?.memory)));
    members.map(|(pid, memory)| known(pid, memory)).collect()
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
fn known(pid: u32, memory: Option<Memory>) -> Result<Process, MeterError> {
    if let Some(memory) = memory {
        return Ok(Process { pid, thread: pid, memory });
    }
    for thread in threads(pid)? {
        let status = read(Fields::thread_status(pid, thread))?;
        if let Some(memory) = status.and_then(|status| status.memory) {
            return Ok(Process { pid, thread, memory });
        }
    }
    Ok(Process { pid, thread: pid, memory: Memory::default() })
}

/// The threads of a process; none if it has ended.
pub(super) fn threads(pid: u32) -> Result<Vec<u32>, MeterError> {
    cmp_procfs::threads(pid).map_err(|_unreadable| MeterError::Unreadable)
}

/// Returns true if the thread still has memory and descriptors. An ending
/// thread has released them.
pub(super) fn is_alive(pid: u32, thread: u32) -> Result<bool, MeterError> {
    let status = read(Fields::thread_status(pid, thread))?;
    Ok(status.is_some_and(|status| status.memory.is_some()))
}

fn read(fields: io::Result<Fields>) -> Result<Option<Status>, MeterError> {
    match fields {
        Ok(fields) => Ok(parse(&fields)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(_) => Err(MeterError::Unreadable),
    }
}

fn parse(fields: &Fields) -> Option<Status> {
    let memory = fields.bytes("RssAnon").zip(fields.bytes("RssShmem"));
    let memory = memory.map(|(own, shared)| Memory { own, shared });
    Some(Status { parent: fields.id("PPid")?, user: fields.id("Uid")?, memory })
}

/// Compares the memory of all processes with the limit. The first sum counts
/// shared pages once for each process; if it is too large, exact shares are
/// read.
pub(super) fn check_memory(processes: &[Process], totals: &Totals) -> Result<(), MeterError> {
    let is_too_much = |all: Vec<Memory>| {
        let own = all.iter().fold(0, |sum: u64, memory| sum.saturating_add(memory.own));
        let shared = all.iter().fold(0, |sum: u64, memory| sum.saturating_add(memory.shared));
        totals.is_too_much(own, shared)
    };
    if !is_too_much(processes.iter().map(|process| process.memory).collect()) {
        return Ok(());
    }
    let share = |process: &Process| share(process.thread).unwrap_or(process.memory);
    let shares = processes.iter().map(share).collect();
    if is_too_much(shares) { Err(MeterError::Exceeded(ExceededLimit::Memory)) } else { Ok(()) }
}

/// The proportional share of a process's memory. `None` if it cannot be read;
/// the memory then counts in full.
fn share(thread: u32) -> Option<Memory> {
    parse_share(&Fields::read(&format!("/proc/{thread}/smaps_rollup")).ok()?)
}

fn parse_share(fields: &Fields) -> Option<Memory> {
    Some(Memory { own: fields.bytes("Pss_Anon")?, shared: fields.bytes("Pss_Shmem")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(parent: u32, user: u32) -> Status {
        Status { parent, user, memory: None }
    }

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tx\nState:\tS (sleeping)\nPPid:\t7\nUid:\t5\t6\t6\t6\nVmRSS:\t 9 kB\n\
                    RssAnon:\t       2 kB\nRssFile:\t 9 kB\nRssShmem:\t       3 kB\n";
        let memory = Some(Memory { own: 2048, shared: 3072 });
        assert_eq!(parse(&text.into()), Some(Status { parent: 7, user: 5, memory }));
        let zombie = "Name:\tx\nState:\tZ (zombie)\nPPid:\t7\nUid:\t5\t5\t5\t5\n";
        assert_eq!(parse(&zombie.into()), Some(status(7, 5)));
        assert_eq!(parse(&"Name:\tUid: 5\n".into()), None);
    }

    #[test]
    fn a_share_is_read() {
        let text =
            "Rss:   9 kB\nPss:   8 kB\nPss_Anon:    2 kB\nPss_File:  1 kB\nPss_Shmem:  3 kB\n";
        assert_eq!(parse_share(&text.into()), Some(Memory { own: 2048, shared: 3072 }));
        assert_eq!(parse_share(&"Rss: 9 kB\nPss: 8 kB\n".into()), None);
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
        let own = read(Fields::status(pid)).unwrap().unwrap();
        let (quick, share) = (own.memory.unwrap(), share(pid).unwrap());
        assert!(quick.own > 0 && share.own > 0);
        assert!(threads(pid).unwrap().contains(&pid));
        assert!(is_alive(pid, pid).unwrap());
    }
}
