//! Sequences and mappings, complete or not.

use super::{MergeList, Offset, Place, Slot, Writer};

/// A sequence or mapping that is not complete yet.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its role in its parent.
    pub(super) slot: Slot,
    /// Start of its JSON text.
    pub(super) start: Offset,
    /// Its place in the document.
    pub(super) place: Place,
    /// Numbers of entries, anchors, patches and merge sources when it started.
    pub(super) entries: usize,
    pub(super) anchors: usize,
    pub(super) patches: usize,
    pub(super) sources: usize,
    /// The writer's growth when it started.
    pub(super) growth: usize,
    pub(super) anchor: Option<usize>,
    /// Deepest nesting of collections in it.
    pub(super) height: usize,
    /// Its entries are not in their final order.
    pub(super) is_unsorted: bool,
    /// It has a merge key, so some of its entries are in other places of the
    /// text.
    pub(super) has_merge: bool,
    /// An alias or merge may refer to its entries later.
    pub(super) keeps_entries: bool,
    pub(super) merge_list: Option<MergeList>,
    /// Index of the entry whose key is the float 0.
    pub(super) float_zero: Option<usize>,
}

/// A sequence or mapping that is complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Collection {
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) patch: Option<usize>,
    /// Upper bound of its final text, in bytes.
    pub(super) size: usize,
    pub(super) height: usize,
    /// Nodes in the collection, itself included.
    pub(super) nodes: u32,
}

impl Writer {
    pub(super) fn open_sequence(&mut self, place: Place, anchor: Option<usize>) {
        let slot = self.slot();
        match slot {
            Slot::Merge => {}
            Slot::MergeItem => self.refuse_merge(place),
            Slot::Root | Slot::Item | Slot::Key | Slot::Value => self.count(1, 0, place),
        }
        self.open(b'[', place, anchor);
        if slot == Slot::Merge {
            self.open_merge_list();
        } else {
            self.slot = Some(Slot::Item);
        }
    }

    pub(super) fn close_sequence(&mut self) {
        let Some(mut frame) = self.frames.pop() else {
            return;
        };
        self.raw.push(b']');
        if let Some(list) = frame.merge_list.take() {
            self.close_merge_list(list);
            self.apply_merges(frame.sources);
        }
        self.close(&frame, None);
    }

    pub(super) fn open(&mut self, bracket: u8, place: Place, anchor: Option<usize>) -> &mut Frame {
        self.separate();
        let frame = Frame {
            slot: self.slot(),
            start: self.offset(),
            place,
            entries: self.entries.len(),
            anchors: self.anchors.len(),
            patches: self.patches.len(),
            sources: self.sources.len(),
            growth: self.growth,
            anchor,
            height: 0,
            is_unsorted: false,
            keeps_entries: false,
            has_merge: false,
            merge_list: None,
            float_zero: None,
        };
        self.raw.push(bracket);
        self.frames.push(frame);
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Completes a sequence or mapping.
    pub(super) fn close(&mut self, frame: &Frame, patch: Option<usize>) {
        let is_merged = matches!(frame.slot, Slot::Merge | Slot::MergeItem);
        let height = frame.height + 1;
        self.reach(height - usize::from(is_merged));
        if let Some(anchor) = frame.anchor {
            let collection = Collection {
                start: frame.start,
                end: self.offset(),
                patch,
                size: self.size_of(frame),
                height,
                nodes: 0,
            };
            self.close_collection_anchor(anchor, collection);
        }
        if frame.slot == Slot::Key {
            self.refuse_key(frame.place);
        }
        self.done(frame.slot);
    }

    /// Upper bound of the collection's final text if it ends here, in bytes.
    pub(super) fn size_of(&self, frame: &Frame) -> usize {
        self.raw.len() - frame.start.get() + (self.growth - frame.growth)
    }

    /// Raises the nesting depth of the parent to at least `height`.
    pub(super) fn reach(&mut self, height: usize) {
        let parent = self.frames.last_mut().map_or(&mut self.height, |frame| &mut frame.height);
        *parent = height.max(*parent);
    }

    /// Completes a node and sets the role of the next one.
    pub(super) fn done(&mut self, slot: Slot) {
        let next = match slot {
            Slot::Key => Slot::Value,
            Slot::Value => {
                let end = self.offset();
                if let Some(entry) = self.entries.last_mut() {
                    entry.end = end;
                }
                Slot::Key
            }
            Slot::Merge => Slot::Key,
            Slot::MergeItem => {
                self.close_merge_item();
                slot
            }
            Slot::Root | Slot::Item => slot,
        };
        self.slot = Some(next);
    }

    /// Writes the comma before every item but the first.
    pub(super) fn separate(&mut self) {
        if self.slot() == Slot::Item
            && self.frames.last().is_some_and(|frame| self.raw.len() > frame.start.get() + 1)
        {
            self.raw.push(b',');
        }
    }
}
