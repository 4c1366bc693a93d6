//! Memory mappings of a process: `maps`.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

/// Mark of the kernel for a mapped file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// Names that the kernel gives to memory that processes share.
const SHARED_MEMORY: [&[u8]; 3] = [b"/dev/zero", b"/memfd:", b"/SYSV"];

/// Adds the inode numbers of deleted files that a thread has mapped, and returns
/// the length of the table. It reads at most `limit` bytes.
///
/// Shared memory is no file. An error while reading means that the process ended;
/// its files then have no mapping any more.
pub fn deleted_files(thread: u32, limit: u64, found: &mut BTreeSet<u64>) -> io::Result<u64> {
    let table = File::open(format!("/proc/{thread}/maps"))?;
    Ok(scan(BufReader::new(table.take(limit)), found).unwrap_or_default())
}

fn scan(mut table: impl BufRead, found: &mut BTreeSet<u64>) -> io::Result<u64> {
    let mut length = 0;
    let mut line = Vec::new();
    while table.read_until(b'\n', &mut line)? > 0 {
        length += line.len() as u64;
        found.extend(deleted_file(line.trim_ascii_end()));
        line.clear();
    }
    Ok(length)
}

fn deleted_file(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(DELETED)?;
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let inode = str::from_utf8(fields.nth(4)?).ok()?.parse().ok()?;
    let path = fields.next()?;
    (!SHARED_MEMORY.iter().any(|name| path.starts_with(name))).then_some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deleted_files_are_found() {
        let table = "55d0-55d1 r--p 00000000 fd:00 11 /bin/cat\n\
                     7f00-7f01 rw-s 00000000 fd:00 12    /work/x y (deleted)\n\
                     7f01-7f02 rw-s 00001000 fd:00 12    /work/x y (deleted)\n\
                     7f02-7f03 rw-s 00000000 00:01 13    /memfd:x (deleted)\n\
                     7f03-7f04 rw-s 00000000 00:01 14    /dev/zero (deleted)\n\
                     7f04-7f05 rw-p 00000000 00:00 0\n\
                     7f05-7f06 r--p 00000000 fd:00 15    /work/é (deleted)\n";
        let mut found = BTreeSet::new();
        assert_eq!(scan(table.as_bytes(), &mut found).unwrap(), table.len() as u64);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [12, 15]);
    }
}
