//! Merges: entries of other mappings, taken over where `<<` stands.

use super::{Error, Place, Refusal, Slot, Writer};

/// What went wrong in a list of merges. Upstream reads it from its end, so
/// the last item's trouble comes first.
#[derive(Debug)]
pub(super) struct MergeList {
    had_refusal: bool,
    refusal: Option<Refusal>,
}

/// A mapping whose entries are taken over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// The patch that lists them.
    pub(super) patch: usize,
    /// Bytes of its final text, at most.
    pub(super) size: usize,
}

impl Writer {
    /// A key `<<` was read.
    pub(super) fn expect_merge(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.is_unsorted = true;
            frame.has_merge = true;
        }
        self.slot = Some(Slot::Merge);
    }

    pub(super) fn refuse_merge(&mut self, place: Place) {
        let problem = "map merge requires map or sequence of maps as the value";
        self.fail(Error::value(problem, place));
    }

    /// Takes over the entries of a patch, now or, in a list, at its end.
    pub(super) fn merge(&mut self, source: Source, slot: Slot) {
        self.sources.push(source);
        if slot == Slot::Merge {
            self.apply_merges(self.sources.len() - 1);
        }
    }

    /// Of several mappings with a key the first one wins. What is refused, or
    /// too large, takes no more memory: mappings that merge one another hold
    /// as many entries as the square of their number.
    pub(super) fn apply_merges(&mut self, first: usize) {
        while self.sources.len() > first
            && let Some(source) = self.sources.pop()
        {
            self.growth = self.growth.saturating_add(source.size);
            if self.refusal.is_some() || self.check_size().is_err() {
                self.sources.truncate(first);
            } else if let Some(patch) = self.patches.get(source.patch) {
                self.entries.extend_from_slice(&self.pieces[patch.pieces()]);
            }
        }
    }

    /// A sequence stands where a mapping may be merged.
    pub(super) fn open_merge_list(&mut self) {
        let list = MergeList { had_refusal: self.refusal.is_some(), refusal: None };
        if let Some(frame) = self.frames.last_mut() {
            frame.merge_list = Some(list);
        }
        self.slot = Some(Slot::MergeItem);
    }

    pub(super) fn close_merge_item(&mut self) {
        let list = self.frames.last_mut().and_then(|frame| frame.merge_list.as_mut());
        if let Some(list) = list
            && !list.had_refusal
            && self.refusal.is_some()
        {
            list.refusal = self.refusal.take();
        }
    }

    pub(super) fn close_merge_list(&mut self, list: MergeList) {
        if !list.had_refusal {
            self.refusal = list.refusal;
        }
    }
}
