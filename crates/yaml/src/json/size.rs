//! The memory of a writer, and the questions to its caller.

use super::{Anchor, Entry, Error, Frame, GoOn, MergeSource, Patch, Writer};

/// Largest buffer that is kept for the next document, in bytes.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Estimated bytes of one name of an anchor in the map, without its text.
const NAME_BYTES: usize = 96;

impl Writer {
    /// Empties the buffers, which keep their memory.
    pub(super) fn clear(&mut self) {
        let (limit, events) = (self.limit, self.events);
        let Self { raw, frames, entries, patches, pieces, sources, moved, .. } =
            std::mem::take(self);
        *self = Self {
            limit,
            raw,
            frames,
            entries,
            patches,
            pieces,
            sources,
            moved,
            events,
            ..Self::default()
        };
        self.raw.clear();
        self.frames.clear();
        self.entries.clear();
        self.patches.clear();
        self.pieces.clear();
        self.sources.clear();
        self.moved.clear();
    }

    /// Gives back the memory that a large document needed.
    pub(super) fn release(&mut self) {
        if self.memory() - self.before > MAX_KEPT_BYTES {
            let (limit, events) = (self.limit, self.events);
            *self = Self {
                limit,
                events,
                height: self.height,
                unencodable: self.unencodable,
                ..Self::default()
            };
        }
    }

    /// Asks the caller if there is room for the final text.
    pub(super) fn announce(&mut self, go_on: &mut GoOn<'_>) -> Result<(), Error> {
        // `growth` includes the bytes that are in `out` already.
        let new = self.raw.len().saturating_add(self.growth) - self.before;
        if new >= super::STRETCH { self.ask(go_on, new) } else { Ok(()) }
    }

    /// Asks the caller before `len` bytes are written at once, if they are many. `memory` is
    /// that of the parser.
    pub(super) fn make_room(
        &mut self,
        len: usize,
        (memory, go_on): (usize, &mut GoOn<'_>),
    ) -> Result<(), Error> {
        if len < super::STRETCH { Ok(()) } else { self.ask(go_on, memory + len) }
    }

    /// Asks the caller whether to go on with `more` bytes.
    pub(super) fn ask(&mut self, go_on: &mut GoOn<'_>, more: usize) -> Result<(), Error> {
        (self.events, self.asked) = (0, self.raw.len());
        if go_on(self.memory().saturating_add(more)) { Ok(()) } else { Err(Error::stopped()) }
    }

    /// Bytes in use, `out` included.
    fn memory(&self) -> usize {
        // Sorting needs room for half of the entries.
        let entries = self.entries.len() + self.entries.len() / 2 + self.pieces.len();
        self.before
            + self.raw.len()
            + self.moved.len()
            + entries * size_of::<Entry>()
            + self.frames.len() * size_of::<Frame>()
            + self.patches.len() * size_of::<Patch>()
            + self.sources.len() * size_of::<MergeSource>()
            + self.anchors.len() * size_of::<Anchor>()
            + self.names.len() * NAME_BYTES
    }
}
