//! Mappings become objects with sorted, unique keys.

use super::{Entry, Frame, Place, Slot, Writer, merge::MergeSource};

/// Objects of at most this many bytes are sorted in place. Each byte is then
/// moved once per enclosing small object, and few fit into this size.
const MAX_MOVED_BYTES: usize = 1024;

impl Writer {
    pub(super) fn open_mapping(&mut self, place: Place, anchor: Option<usize>) {
        let slot = self.slot();
        self.count(1, 0, place);
        let frame = self.open(b'{', place, anchor);
        frame.keeps_entries = anchor.is_some() || matches!(slot, Slot::Merge | Slot::MergeItem);
        self.slot = Some(Slot::Key);
    }

    pub(super) fn close_mapping(&mut self) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.raw.push(b'}');
        let mut patch = None;
        if frame.is_unsorted || frame.keeps_entries {
            let from = self.sort_entries(&frame);
            if self.may_move(&frame) {
                self.move_entries(&frame, from);
            } else {
                patch = Some(self.patch_object(&frame, from));
            }
        }
        self.entries.truncate(frame.entries);
        if matches!(frame.slot, Slot::Merge | Slot::MergeItem)
            && let Some(patch) = patch
        {
            let size = self.size_of(&frame);
            self.merge(MergeSource { patch, size }, frame.slot);
        }
        self.close(&frame, patch);
    }

    /// Appends the sorted entries to `pieces`; of equal keys the last one.
    /// Returns the index of the first.
    fn sort_entries(&mut self, frame: &Frame) -> usize {
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
        from
    }

    /// The text is small, and no patch, anchor or merge refers to offsets in
    /// it.
    fn may_move(&self, frame: &Frame) -> bool {
        self.raw.len() - frame.start.get() <= MAX_MOVED_BYTES
            && !frame.keeps_entries
            && !frame.has_merge
            && frame.anchors == self.anchors.len()
            && frame.patches == self.patches.len()
    }

    /// Sorts the object's text in place.
    fn move_entries(&mut self, frame: &Frame, from: usize) {
        self.moved.clear();
        for piece in self.pieces.drain(from..) {
            if !self.moved.is_empty() {
                self.moved.push(b',');
            }
            self.moved.extend_from_slice(&self.raw[piece.start.get()..piece.end.get()]);
        }
        self.raw.truncate(frame.start.get() + 1);
        self.raw.extend_from_slice(&self.moved);
        self.raw.push(b'}');
    }
}
