//! The distinct names of an index.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Index of a name in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NameId(u32);

impl NameId {
    /// The first name.
    pub(super) const FIRST: Self = Self(0);

    /// The number of names added before this one.
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// Interned byte strings. A name like `Chart.yaml` is stored once, even if it
/// occurs often.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// The end of each name in `bytes`. A name starts at the end of the one
    /// before.
    ends: Vec<u32>,
    ids: HashTable<NameId>,
    /// Random keys, because the author of a repository chooses the names.
    hasher: RandomState,
}

impl Names {
    /// The bytes of a name.
    pub(super) fn get(&self, id: NameId) -> &[u8] {
        slice(&self.bytes, &self.ends, id)
    }

    /// The index of a name, if it is stored.
    pub(super) fn find(&self, name: &[u8]) -> Option<NameId> {
        let is_it = |id: &NameId| slice(&self.bytes, &self.ends, *id) == name;
        self.ids.find(self.hasher.hash_one(name), is_it).copied()
    }

    /// Adds a new name. `None` if offsets no longer fit into 32 bits.
    pub(super) fn insert(&mut self, name: &[u8]) -> Option<NameId> {
        let id = NameId(u32::try_from(self.ends.len()).ok()?);
        let end = u32::try_from(self.bytes.len() + name.len()).ok()?;
        self.bytes.extend_from_slice(name);
        self.ends.push(end);
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        let hash = |id: &NameId| hasher.hash_one(slice(bytes, ends, *id));
        self.ids.insert_unique(hasher.hash_one(name), id, hash);
        Some(id)
    }

    /// Bytes of all names.
    pub(super) fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Allocated heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<u32>();
        self.bytes.capacity() + ends + self.ids.allocation_size()
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[u32], id: NameId) -> &'a [u8] {
    let index = id.0 as usize;
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start as usize..ends[index] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stored_once() {
        let mut names = Names::default();
        let chart = names.insert(b"Chart.yaml").unwrap();
        let empty = names.insert(b"").unwrap();
        let values = names.insert(b"values.yaml").unwrap();
        assert_eq!(names.find(b"Chart.yaml"), Some(chart));
        assert_eq!(names.find(b""), Some(empty));
        assert_eq!(names.get(values), b"values.yaml");
        assert_eq!(names.find(b"Chart"), None);
        assert_eq!(names.total_bytes(), 21);
    }
}
