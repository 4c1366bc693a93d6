//! Counts deleted files and shared memory that are mapped but not open.
//!
//! One mapped page keeps the whole file, and its size cannot be read.

use std::collections::BTreeSet;

use cmp_procfs::{DeletedFile, Mappings, is_gone};
use nix::sys::stat::{major, minor};

use super::{
    Subject,
    descriptors::Open,
    processes::{self, Process},
    totals::Totals,
};

/// Most bytes of tables to read, which takes a fraction of a second. A process
/// has about ten thousand.
const MAX_BYTES: u64 = 64 << 20;

/// Memory of the kernel for a mapping.
const MAPPING: u64 = 256;

/// Most pieces of shared memory that are mapped but not open. Each may be larger
/// than its mappings show.
const MAX_OBJECTS: usize = 64;

pub(super) fn count(
    subject: &Subject<'_>,
    processes: &[Process],
    open: &Open,
    totals: &mut Totals,
) {
    let mut found = Mappings::default();
    let mut left = MAX_BYTES;
    for Process { pid, thread, .. } in processes {
        match found.add(*thread, left) {
            Ok(read) => left = left.saturating_sub(read),
            Err(error) if is_gone(&error) => {}
            Err(_) if subject.may_hide || !processes::is_alive(*pid, *thread) => {}
            Err(_) => totals.blind(),
        }
        if left == 0 {
            totals.blind();
            break;
        }
    }
    totals.kernel_memory(found.count.saturating_mul(MAPPING));
    hidden(&found.deleted, open, subject, totals);
    let closed = found.shared.iter().filter(|(inode, _)| !open.memory.contains(inode));
    let mut left = MAX_OBJECTS;
    for (_, object) in closed {
        // Pages that were dropped stay, and no process shows them.
        totals.memory_file(object.extent);
        // A file in memory may be larger than its mapping, up to the limit of
        // each file.
        totals.hidden_memory(object.is_memfd.into());
        match left.checked_sub(1) {
            Some(fewer) => left = fewer,
            None => totals.blind(),
        }
    }
}

/// Counts deleted files that are not open. Some file systems show another device in this table
/// than to `stat`, so a file on an unknown device may be one that is open.
fn hidden(
    deleted: &BTreeSet<DeletedFile>,
    open: &Open,
    subject: &Subject<'_>,
    totals: &mut Totals,
) {
    let is_on = |file: &DeletedFile, device| file.device == (major(device), minor(device));
    let is_counted = |file: &&DeletedFile| {
        open.files.contains(&file.inode) || open.scratch.iter().any(|device| is_on(file, *device))
    };
    for file in deleted.iter().filter(|file| !is_counted(file)) {
        match subject.growth.filter(|_| is_on(file, open.volume)) {
            Some(growth) => totals.hidden_on_volume(growth),
            None => totals.hidden(1),
        }
    }
}
