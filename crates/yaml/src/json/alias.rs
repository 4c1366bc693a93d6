//! Anchors, and the guard against documents that are mostly aliases.

use std::ops::Range;

use super::{Error, Event, Offset, Parser, Patch, Place, Slot, Value, Writer, merge::Source};
use crate::error::shown;

/// Upstream's guard looks at documents beyond these counts only.
const UNGUARDED_ALIASED: u32 = 100;
/// See [`UNGUARDED_ALIASED`].
const UNGUARDED_NODES: u32 = 1000;
/// Up to this many nodes upstream lets 99 % of them come from aliases.
const FEW_NODES: u32 = 400_000;
/// From this many nodes on it lets 10 % of them.
const MANY_NODES: u32 = 4_000_000;

/// How many nodes were read, counted as upstream does: once for each time
/// that an alias repeats them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    nodes: u32,
    /// Those that were repeated.
    aliased: u32,
}

impl Tally {
    fn is_excessive(self) -> bool {
        if self.aliased <= UNGUARDED_ALIASED || self.nodes <= UNGUARDED_NODES {
            return false;
        }
        let (nodes, aliased) = (f64::from(self.nodes), f64::from(self.aliased));
        let allowed = if self.nodes <= FEW_NODES {
            0.99
        } else if self.nodes >= MANY_NODES {
            0.10
        } else {
            0.99 - 0.89 * (nodes - f64::from(FEW_NODES)) / f64::from(MANY_NODES - FEW_NODES)
        };
        aliased / nodes > allowed
    }
}

/// A node with a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    is_mapping: bool,
    /// Nodes read before it.
    before: u32,
    target: Target,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    /// It is still being read.
    Open,
    /// A value, and where its text stands, which is a key's if it is a string.
    Scalar {
        value: Value,
        start: Offset,
        end: Offset,
    },
    Collection(Collection),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Collection {
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) patch: Option<usize>,
    /// Bytes of its final text, at most.
    pub(super) size: usize,
    pub(super) height: usize,
    /// Nodes within it, itself included.
    pub(super) nodes: u32,
}

impl Writer {
    /// Counts nodes, some of which may have been read before.
    pub(super) fn count(&mut self, nodes: u32, aliased: u32) {
        self.tally.nodes = self.tally.nodes.saturating_add(nodes);
        self.tally.aliased = self.tally.aliased.saturating_add(aliased);
        if self.tally.is_excessive() {
            self.fail(Error::value("document contains excessive aliasing", Place::default()));
        }
    }

    /// A node starts; if it has a name, the name is known from here on.
    pub(super) fn open_anchor(&mut self, parser: &Parser<'_>, event: &Event) -> Option<usize> {
        let name = parser.text(event.anchor?);
        let is_mapping = matches!(event.kind, super::Kind::MappingStart);
        self.names.insert(name.into(), self.anchors.len());
        self.anchors.push(Anchor { is_mapping, before: self.tally.nodes, target: Target::Open });
        Some(self.anchors.len() - 1)
    }

    pub(super) fn close_scalar_anchor(
        &mut self,
        anchor: Option<usize>,
        value: Value,
        start: Offset,
    ) {
        let end = Offset::new(self.raw.len() - usize::from(self.slot() == Slot::Key));
        if let Some(anchor) = anchor.and_then(|anchor| self.anchors.get_mut(anchor)) {
            anchor.target = Target::Scalar { value, start, end };
        }
    }

    /// Nodes within a named collection that was just read.
    pub(super) fn close_collection_anchor(&mut self, anchor: usize, collection: Collection) {
        let nodes = self.tally.nodes;
        if let Some(anchor) = self.anchors.get_mut(anchor) {
            let nodes = nodes - anchor.before;
            anchor.target = Target::Collection(Collection { nodes, ..collection });
        }
    }

    /// An unknown name ends the reading, as upstream looks names up while it
    /// parses.
    pub(super) fn alias(&mut self, name: &[u8], place: Place) -> Result<(), Error> {
        let Some(&anchor) = self.names.get(name).and_then(|&anchor| self.anchors.get(anchor))
        else {
            return Err(Error::unknown_anchor(name, place));
        };
        let slot = self.slot();
        if matches!(slot, Slot::Merge | Slot::MergeItem) && !anchor.is_mapping {
            self.refuse_merge(place);
            self.done(slot);
            return Ok(());
        }
        self.count(1, 0);
        match anchor.target {
            Target::Open => {
                let nodes = self.tally.nodes - anchor.before;
                self.count(nodes, nodes);
                let problem = format!("anchor '{}' value contains itself", shown(name));
                self.fail(Error::value(&problem, place));
                self.repeat_scalar(Value::Null, 0..0);
            }
            Target::Scalar { value, start, end } => {
                self.count(1, 1);
                self.repeat_scalar(value, start.get()..end.get());
            }
            Target::Collection(collection) => {
                self.count(collection.nodes, collection.nodes);
                self.repeat_collection(collection, place);
            }
        }
        self.done(slot);
        Ok(())
    }

    fn repeat_scalar(&mut self, value: Value, text: Range<usize>) {
        let is_text = matches!(value, Value::Str | Value::Timestamp | Value::Binary);
        match self.slot() {
            Slot::Merge | Slot::MergeItem => {}
            Slot::Key if is_text => {
                let start = self.start_entry();
                self.raw.extend_from_within(text);
                self.end_key(start);
            }
            Slot::Key => {
                self.write_key(value, b"");
            }
            Slot::Root | Slot::Item | Slot::Value if is_text => {
                self.separate();
                self.raw.extend_from_within(text);
            }
            Slot::Root | Slot::Item | Slot::Value => {
                self.write_value(value, b"");
            }
        }
    }

    fn repeat_collection(&mut self, collection: Collection, place: Place) {
        let slot = self.slot();
        let is_merge = matches!(slot, Slot::Merge | Slot::MergeItem);
        self.reach(collection.height - usize::from(is_merge));
        if is_merge {
            if let Some(patch) = collection.patch {
                self.merge(Source { patch, size: collection.size }, slot);
            }
            return;
        }
        if slot == Slot::Key {
            self.refuse_key(place);
            return;
        }
        self.separate();
        let start = self.offset();
        self.raw.push(b'*');
        self.growth = self.growth.saturating_add(collection.size);
        let piece =
            super::Entry { start: collection.start, value: collection.start, end: collection.end };
        self.pieces.push(piece);
        self.patches.push(Patch::alias(start, self.pieces.len() - 1));
    }
}
