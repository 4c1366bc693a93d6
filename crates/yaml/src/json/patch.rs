//! Differences between the text as first written and the final text.

use std::ops::Range;

use super::{Entry, Frame, Offset, Writer};

/// A range of the text that is replaced by pieces of other ranges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patch {
    start: Offset,
    end: Offset,
    /// First piece, and the index after the last one.
    from: Offset,
    to: Offset,
    /// Number of patches inside the range.
    nested: Offset,
    /// The pieces are an object's entries. Otherwise one piece is the whole
    /// text.
    is_object: bool,
    /// All pieces are inside the range, and no patch is.
    is_plain: bool,
}

impl Patch {
    /// A patch that repeats a collection's text.
    pub(super) fn alias(start: Offset, piece: usize) -> Self {
        Self {
            start,
            end: Offset::new(start.get() + 1),
            from: Offset::new(piece),
            to: Offset::new(piece + 1),
            nested: Offset::ZERO,
            is_object: false,
            is_plain: false,
        }
    }

    /// Indices of the pieces.
    pub(super) fn pieces(&self) -> Range<usize> {
        self.from.get()..self.to.get()
    }
}

/// Work that remains while the text is assembled.
enum Step {
    /// Copy the text from `at` to `end`. `patch` is the first patch that may be
    /// in it.
    Text { at: Offset, end: Offset, patch: usize },
    /// Copy the pieces of `patch` from `next` on.
    Pieces { next: usize, patch: usize },
}

/// The state of assembling the final text.
struct Assembly<'a> {
    raw: &'a [u8],
    /// Sorted by start.
    patches: &'a [Patch],
    pieces: &'a [Entry],
    steps: Vec<Step>,
    out: &'a mut Vec<u8>,
}

impl Writer {
    /// Records the final order of an object's entries, which are the pieces
    /// from `from` on. Returns the patch's index.
    pub(super) fn patch_object(&mut self, frame: &Frame, from: usize) -> usize {
        let nested = self.patches.len() - frame.patches;
        self.patches.push(Patch {
            start: frame.start,
            end: self.offset(),
            from: Offset::new(from),
            to: Offset::new(self.pieces.len()),
            nested: Offset::new(nested),
            is_object: true,
            is_plain: nested == 0 && !frame.has_merge,
        });
        self.patches.len() - 1
    }

    /// Appends the final text to `out`.
    pub(super) fn assemble(&mut self, out: &mut Vec<u8>) {
        // Patches were recorded at their end. Sorted by start, an outer one
        // comes before its inner ones.
        self.patches.sort_unstable_by_key(|patch| patch.start);
        let Self { raw, patches, pieces, .. } = self;
        let start = Step::Text { at: Offset::ZERO, end: Offset::new(raw.len()), patch: 0 };
        let mut assembly = Assembly { raw, patches, pieces, steps: vec![start], out };
        while let Some(step) = assembly.steps.pop() {
            match step {
                Step::Text { at, end, patch } => assembly.text(at, end, patch),
                Step::Pieces { next, patch } => assembly.piece(next, patch),
            }
        }
    }
}

impl Assembly<'_> {
    fn text(&mut self, mut at: Offset, end: Offset, mut number: usize) {
        while let Some(patch) = self.patches.get(number).filter(|patch| patch.start < end) {
            self.copy(at, patch.start);
            if patch.is_object {
                self.out.push(b'{');
            }
            at = patch.end;
            let next = number + 1 + patch.nested.get();
            if !patch.is_plain {
                self.steps.push(Step::Text { at, end, patch: next });
                self.steps.push(Step::Pieces { next: patch.from.get(), patch: number });
                return;
            }
            for (count, piece) in self.pieces[patch.pieces()].iter().enumerate() {
                if count > 0 {
                    self.out.push(b',');
                }
                self.copy(piece.start, piece.end);
            }
            self.out.push(b'}');
            number = next;
        }
        self.copy(at, end);
    }

    fn piece(&mut self, next: usize, number: usize) {
        let Some(patch) = self.patches.get(number) else {
            return;
        };
        if next == patch.to.get() {
            if patch.is_object {
                self.out.push(b'}');
            }
            return;
        }
        if next > patch.from.get() {
            self.out.push(b',');
        }
        let Some(&Entry { start, end, .. }) = self.pieces.get(next) else {
            return;
        };
        self.steps.push(Step::Pieces { next: next + 1, patch: number });
        let patch = self.patches.partition_point(|patch| patch.start < start);
        self.steps.push(Step::Text { at: start, end, patch });
    }

    fn copy(&mut self, start: Offset, end: Offset) {
        self.out.extend_from_slice(&self.raw[start.get()..end.get()]);
    }
}
