//! Memory mappings of a process: `maps`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

/// Mark of the kernel for a mapped file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// Names that the kernel gives to memory that processes share.
const ANONYMOUS: &[u8] = b"/dev/zero";
const MEMFD: &[u8] = b"/memfd:";
const SYSTEM_V: &[u8] = b"/SYSV";

/// Findings in the mappings of several processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Files without a name.
    pub deleted: BTreeSet<DeletedFile>,
    /// Memory that processes share, by its inode number.
    pub shared: BTreeMap<u64, Object>,
    /// Number of mappings.
    pub count: u64,
}

/// A file without a name. The kernel does not tell its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletedFile {
    /// Major and minor number of the device of its file system.
    pub device: (u64, u64),
    /// Inode number.
    pub inode: u64,
}

/// Memory that processes share. The kernel keeps all of it as long as one page
/// is mapped, and does not tell its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Bytes up to the end of the last mapping.
    pub extent: u64,
    /// A descriptor to it may exist (`memfd_create`).
    pub is_memfd: bool,
}

impl Mappings {
    /// Adds the mappings of a thread and returns the length of the table. It
    /// reads at most `limit` bytes.
    ///
    /// An error while reading means that the process ended; it has no mappings
    /// any more.
    pub fn add(&mut self, thread: u32, limit: u64) -> io::Result<u64> {
        let table = File::open(format!("/proc/{thread}/maps"))?;
        Ok(self.scan(BufReader::new(table.take(limit))).unwrap_or_default())
    }

    fn scan(&mut self, mut table: impl BufRead) -> io::Result<u64> {
        let mut length = 0;
        let mut line = Vec::new();
        while table.read_until(b'\n', &mut line)? > 0 {
            length += line.len() as u64;
            self.count += 1;
            if let Some(line) = line.trim_ascii_end().strip_suffix(DELETED) {
                self.nameless(line);
            }
            line.clear();
        }
        Ok(length)
    }

    /// Adds a mapping of a file without a name. Lines in another format are
    /// skipped.
    fn nameless(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let range = fields.next()?;
        let offset = hex(fields.nth(1)?)?;
        let device = device(fields.next()?)?;
        let inode = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let path = fields.next()?;
        let is_memfd = path.starts_with(MEMFD);
        if !is_memfd && !path.starts_with(ANONYMOUS) && !path.starts_with(SYSTEM_V) {
            self.deleted.insert(DeletedFile { device, inode });
            return Some(());
        }
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (start, end) = (hex(range.get(..dash)?)?, hex(range.get(dash + 1..)?)?);
        let object = self.shared.entry(inode).or_default();
        object.extent = object.extent.max(offset.saturating_add(end.saturating_sub(start)));
        object.is_memfd |= is_memfd;
        Some(())
    }
}

/// Parses `MAJOR:MINOR`.
fn device(field: &[u8]) -> Option<(u64, u64)> {
    let colon = field.iter().position(|byte| *byte == b':')?;
    Some((hex(field.get(..colon)?)?, hex(field.get(colon + 1..)?)?))
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "55d0-55d1 r--p 00000000 fd:00 11 /bin/cat\n\
                     7f00-7f01 rw-s 00000000 fd:00 12    /work/x y (deleted)\n\
                     7f01-7f02 rw-s 00001000 fd:00 12    /work/x y (deleted)\n\
                     7f02000-7f03000 rw-s 00000000 00:01 13    /memfd:x (deleted)\n\
                     7f04000-7f05000 rw-s 00000000 00:01 14    /dev/zero (deleted)\n\
                     7f06000-7f08000 rw-s 00009000 00:01 14    /dev/zero (deleted)\n\
                     7f04-7f05 rw-p 00000000 00:00 0\n\
                     7f05-7f06 r--p 00000000 fd:00 15    /work/é (deleted)\n\
                     7f07-7f08 r--p 00000000 fd:1a 12    /tmp/x (deleted)\n";

    #[test]
    fn files_and_shared_memory_without_a_name_are_found() {
        let mut found = Mappings::default();
        assert_eq!(found.scan(TABLE.as_bytes()).unwrap(), TABLE.len() as u64);
        let file = |minor, inode| DeletedFile { device: (0xfd, minor), inode };
        let deleted = [file(0, 12), file(0, 15), file(0x1a, 12)];
        assert_eq!(found.deleted.into_iter().collect::<Vec<_>>(), deleted);
        let memfd = Object { extent: 0x1000, is_memfd: true };
        let anonymous = Object { extent: 0xb000, is_memfd: false };
        assert_eq!(found.shared.into_iter().collect::<Vec<_>>(), [(13, memfd), (14, anonymous)]);
        assert_eq!(found.count, 9);
    }
}
