//! Counts deleted files that are mapped but not open.
//!
//! One mapped page keeps the whole file, and its size cannot be read.

use cmp_procfs::is_gone;

use super::{
    Subject,
    descriptors::Seen,
    processes::{self, Process},
    totals::{MeterError, Totals},
};

/// Most bytes of tables to read, which takes a fraction of a second. A process
/// has about ten thousand.
const MAX_BYTES: u64 = 64 << 20;

pub(super) fn count(
    subject: &Subject<'_>,
    processes: &[Process],
    open: &Seen,
    totals: &mut Totals,
) -> Result<(), MeterError> {
    if !totals.counts_files() {
        return Ok(());
    }
    let mut found = Seen::new();
    let mut left = MAX_BYTES;
    for Process { pid, thread, .. } in processes {
        let read = match cmp_procfs::deleted_files(*thread, left, &mut found) {
            Ok(read) => read,
            Err(error) if is_gone(&error) => continue,
            Err(_) if subject.may_hide || !processes::is_alive(*pid, *thread)? => continue,
            Err(_) => return Err(MeterError::Unreadable),
        };
        left = left.saturating_sub(read);
        if left == 0 {
            return Err(MeterError::Unreadable);
        }
    }
    totals.hidden(found.difference(open).count() as u64);
    Ok(())
}
