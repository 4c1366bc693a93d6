//! Counts deleted files and shared memory that are mapped but not open.
//!
//! One mapped page keeps the whole file, and its size cannot be read.

use cmp_procfs::{Mappings, is_gone};

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
    totals.hidden(found.deleted.difference(&open.files).count() as u64);
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
