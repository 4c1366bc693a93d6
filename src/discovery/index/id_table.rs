//! A hash set of ids whose keys live elsewhere.

/// Slots of a table that holds anything at all.
const MIN_SLOTS: usize = 16;

/// An open-addressing set of ids.
///
/// The keys stay in the arena the ids point to, so an id costs four bytes here
/// plus the free slots; a map from key to id would hold every key twice.
#[derive(Debug, Default)]
pub(super) struct IdTable {
    /// Zero is free, anything else an id plus one.
    slots: Vec<u32>,
    used: usize,
}

impl IdTable {
    /// The id with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(hash).filter_map(|at| self.slots.get(at)?.checked_sub(1)).find(|&id| is_it(id))
    }

    /// Adds an id that is not in the table; `hash_of` answers for every id in it.
    pub(super) fn insert(&mut self, id: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            self.grow(&hash_of);
        }
        self.place(id, hash_of(id));
        self.used += 1;
    }

    /// Heap bytes held.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let slots = (self.slots.len() * 2).max(MIN_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        for id in old.into_iter().filter_map(|slot| slot.checked_sub(1)) {
            self.place(id, hash_of(id));
        }
    }

    fn place(&mut self, id: u32, hash: u64) {
        let slots = self.slots.len();
        let mut at = start(hash, slots);
        while self.slots[at] != 0 {
            at = (at + 1) % slots;
        }
        self.slots[at] = id + 1;
    }

    /// The slots from where `hash` belongs to the next free one, which is left out.
    fn probe(&self, hash: u64) -> impl Iterator<Item = usize> {
        let slots = self.slots.len();
        let first = start(hash, slots);
        (first..slots).chain(0..first).take_while(|&at| self.slots[at] != 0)
    }
}

/// Where a hash belongs: its high bits decide, which are the better ones of a product.
fn start(hash: u64, slots: usize) -> usize {
    let scaled = (u128::from(hash) * slots as u128) >> u64::BITS;
    usize::try_from(scaled).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_one_hash_are_told_apart_by_their_keys() {
        let mut table = IdTable::default();
        assert_eq!(table.find(7, |_| true), None);
        for id in 0..100 {
            table.insert(id, |_| 7);
        }
        for id in 0..100 {
            assert_eq!(table.find(7, |found| found == id), Some(id));
        }
        assert_eq!(table.find(7, |found| found == 100), None);
    }

    #[test]
    fn growing_keeps_every_id() {
        let mut table = IdTable::default();
        let hash = |id: u32| u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for id in 0..10_000 {
            table.insert(id, hash);
        }
        assert!((0..10_000).all(|id| table.find(hash(id), |found| found == id) == Some(id)));
        assert!(table.heap_bytes() <= 10_000 * 10, "{}", table.heap_bytes());
    }
}
