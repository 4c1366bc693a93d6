//! Merge keys (`<<`): copying entries of other mappings.

use super::{Error, Place, Slot, WriteError, Writer};

/// The error of a sequence of merges. go-yaml reads the sequence from its end,
/// so it reports the last item's error.
#[derive(Debug)]
pub(super) struct MergeList {
    had_refusal: bool,
    refusal: Option<WriteError>,
}

/// A mapping whose entries are merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeSource {
    /// Index of the patch that lists its entries.
    pub(super) patch: usize,
    /// Upper bound of its final text, in bytes.
    pub(super) size: usize,
}

impl Writer {
    /// Handles a key `<<`.
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

    /// Merges a mapping. In a sequence of merges this happens at the sequence's
    /// end.
    pub(super) fn merge(&mut self, source: MergeSource, slot: Slot) {
        self.sources.push(source);
        if slot == Slot::Merge {
            self.apply_merges(self.sources.len() - 1);
        }
    }

    /// Copies the entries of all sources from `first` on. Of equal keys the
    /// first source wins. Nothing is copied once the document is refused or too
    /// large, because nested merges have quadratically many entries.
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

    /// Starts a sequence as the value of `<<`.
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
