//! Mappings: sorted, without repetitions.

use super::{Entry, Frame, Place, Slot, Writer};

impl Writer {
    pub(super) fn open_mapping(&mut self, place: Place, anchor: Option<usize>) {
        let slot = self.slot();
        self.count(1, 0);
        let frame = self.open(b'{', place, anchor);
        // Others may ask for the entries of these.
        frame.is_patched = anchor.is_some() || matches!(slot, Slot::Merge | Slot::MergeItem);
        self.slot = Some(Slot::Key);
    }

    pub(super) fn close_mapping(&mut self) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.raw.push(b'}');
        let patch = frame.is_patched.then(|| self.patch_mapping(&frame));
        self.entries.truncate(frame.entries);
        if matches!(frame.slot, Slot::Merge | Slot::MergeItem)
            && let Some(patch) = patch
        {
            self.merge(patch, frame.slot);
        }
        self.close(&frame, patch);
    }

    /// Sorts the entries; of those with one key the last one stays.
    fn patch_mapping(&mut self, frame: &Frame) -> usize {
        let raw = &self.raw;
        let entries = &mut self.entries[frame.entries..];
        entries.sort_by(|one, other| one.compare(*other, raw));
        let from = self.pieces.len();
        for &entry in entries.iter() {
            match self.pieces.get_mut(from..).and_then(<[Entry]>::last_mut) {
                Some(last) if last.compare(entry, raw).is_eq() => *last = entry,
                _ => self.pieces.push(entry),
            }
        }
        self.patch_object(frame, from)
    }
}
