//! The entries of a kept archive, and where their bytes are.

use std::ops::Range;

use cmp_archive::{EntryKind, EntryPath, Selection};

use super::Needed;

/// The entries of an archive in their order.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The paths of all entries, one after another.
    paths: Vec<u8>,
    entries: Vec<Listed>,
}

#[derive(Debug)]
struct Listed {
    /// Position of the entry's first header.
    start: u64,
    /// End of its path.
    path: usize,
    kind: EntryKind,
}

impl Listing {
    /// Adds an entry that begins at `start`.
    pub(super) fn add(&mut self, start: u64, path: &EntryPath, kind: EntryKind) {
        self.paths.extend_from_slice(path.as_path().as_os_str().as_encoded_bytes());
        self.entries.push(Listed { start, path: self.paths.len(), kind });
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.paths.capacity() + self.entries.capacity() * size_of::<Listed>()
    }

    /// The parts of an archive of `length` bytes with the selected entries.
    pub(super) fn needed(&self, selection: &Selection, length: u64) -> Needed {
        let mut needed = Needed::default();
        let starts = self.entries.iter().map(|entry| entry.start);
        let ends = starts.skip(1).chain([length]);
        let mut path = 0;
        for (entry, end) in self.entries.iter().zip(ends) {
            let name = self.paths.get(path..entry.path).unwrap_or_default();
            path = entry.path;
            if selection.takes(name, entry.kind) {
                extend(&mut needed.parts, entry.start..end);
            } else {
                needed.unseen.entries += 1;
                if let EntryKind::File { size } = entry.kind {
                    needed.unseen.bytes += size;
                }
            }
        }
        needed
    }
}

/// Appends a part, to the last one if it follows it.
fn extend(parts: &mut Vec<Range<u64>>, part: Range<u64>) {
    match parts.last_mut() {
        Some(last) if last.end == part.start => last.end = part.end,
        Some(_) | None => parts.push(part),
    }
}
