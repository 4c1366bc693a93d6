//! Counts deleted files that are mapped but not open.
//!
//! One mapped page keeps the whole file, and its size cannot be read.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
};

use super::{
    Subject,
    descriptors::Seen,
    processes::{self, Process, is_gone},
    totals::{MeterError, Totals},
};

/// Most bytes of tables to read, which takes a fraction of a second. A process
/// has about ten thousand.
const MAX_BYTES: u64 = 64 << 20;

/// Mark of the kernel for a mapped file that was deleted.
const NAMELESS: &[u8] = b" (deleted)";

/// Names that the kernel gives to shared memory, which is counted as memory.
const SHARED: [&[u8]; 3] = [b"/dev/zero", b"/memfd:", b"/SYSV"];

/// Counts mapped files that no descriptor leads to.
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
        let list = match File::open(format!("/proc/{thread}/maps")) {
            Ok(list) => list,
            Err(error) if is_gone(&error) => continue,
            Err(_) if subject.may_hide || !processes::is_alive(*pid, *thread)? => continue,
            Err(_) => return Err(MeterError::Unreadable),
        };
        let read = nameless(BufReader::new(list.take(left)), &mut found);
        // If a process ends while its table is read, it has no mappings any
        // more.
        left = left.saturating_sub(read.unwrap_or_default());
        if left == 0 {
            return Err(MeterError::Unreadable);
        }
    }
    totals.hidden(found.difference(open).count() as u64);
    Ok(())
}

/// Adds the inode numbers of deleted files in a table. Returns its length.
fn nameless(mut list: impl BufRead, found: &mut Seen) -> std::io::Result<u64> {
    let mut length = 0;
    let mut line = Vec::new();
    while list.read_until(b'\n', &mut line)? > 0 {
        length += line.len() as u64;
        found.extend(nameless_file(line.trim_ascii_end()));
        line.clear();
    }
    Ok(length)
}

fn nameless_file(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(NAMELESS)?;
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let number = str::from_utf8(fields.nth(4)?).ok()?.parse().ok()?;
    let path = fields.next()?;
    (!SHARED.iter().any(|shared| path.starts_with(shared))).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_files_are_recognised() {
        let list = "55d0-55d1 r--p 00000000 fd:00 11 /bin/cat\n\
                    7f00-7f01 rw-s 00000000 fd:00 12    /work/x y (deleted)\n\
                    7f01-7f02 rw-s 00001000 fd:00 12    /work/x y (deleted)\n\
                    7f02-7f03 rw-s 00000000 00:01 13    /memfd:x (deleted)\n\
                    7f03-7f04 rw-s 00000000 00:01 14    /dev/zero (deleted)\n\
                    7f04-7f05 rw-p 00000000 00:00 0\n\
                    7f05-7f06 r--p 00000000 fd:00 15    /work/é (deleted)\n";
        let mut found = Seen::new();
        let list = list.as_bytes();
        assert_eq!(nameless(list, &mut found).unwrap(), list.len() as u64);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [12, 15]);
    }
}
