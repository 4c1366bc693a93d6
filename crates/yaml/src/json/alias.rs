//! Anchors, aliases, and the guard against excessive aliasing.

use std::ops::Range;

use super::{
    Collection, Error, Event, GoOn, Offset, Parser, Patch, Place, Slot, Value, Writer,
    merge::MergeSource,
};
use crate::error::shown;

/// Up to this many nodes from aliases are always allowed. This and the next
/// three constants are go-yaml's.
const UNGUARDED_ALIASED: u32 = 100;
/// Up to this many nodes in all are always allowed.
const UNGUARDED_NODES: u32 = 1000;
/// Up to this many nodes, 99 % of them may come from aliases.
const FEW_NODES: u32 = 400_000;
/// From this many nodes on, 10 % of them may come from aliases. Between the two
/// the share falls linearly.
const MANY_NODES: u32 = 4_000_000;

/// Number of nodes, counted as go-yaml does: an alias counts all nodes of its
/// target again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeCount {
    nodes: u32,
    /// Nodes that come from aliases.
    aliased: u32,
}

impl NodeCount {
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

/// A node with an anchor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    is_mapping: bool,
    /// Nodes counted before this one.
    before: u32,
    target: Target,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    /// The node is not complete yet.
    Open,
    /// A scalar and the range of its text. A string may have been written as a
    /// key.
    Scalar {
        value: Value,
        start: Offset,
        end: Offset,
    },
    Collection(Collection),
}

impl Writer {
    /// Counts the nodes at `place`, of which `aliased` come from aliases.
    pub(super) fn count(&mut self, nodes: u32, aliased: u32, place: Place) {
        self.counted.nodes = self.counted.nodes.saturating_add(nodes);
        self.counted.aliased = self.counted.aliased.saturating_add(aliased);
        if self.counted.is_excessive() {
            let error = Error::value("document contains excessive aliasing", place);
            self.fail(error.of_complexity());
        }
    }

    /// Registers the anchor of a node that starts.
    pub(super) fn open_anchor(&mut self, parser: &Parser<'_>, event: &Event) -> Option<usize> {
        let name = parser.text(event.anchor?);
        let is_mapping = matches!(event.kind, super::EventKind::MappingStart);
        self.names.insert(name.into(), self.anchors.len());
        self.anchors.push(Anchor { is_mapping, before: self.counted.nodes, target: Target::Open });
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

    /// Completes the anchor of a collection.
    pub(super) fn close_collection_anchor(&mut self, anchor: usize, collection: Collection) {
        let nodes = self.counted.nodes;
        if let Some(anchor) = self.anchors.get_mut(anchor) {
            let nodes = nodes - anchor.before;
            anchor.target = Target::Collection(Collection { nodes, ..collection });
        }
    }

    /// Repeats the anchor's node. An unknown anchor is an error at once,
    /// because go-yaml looks anchors up while it parses. `room` is the parser's memory and
    /// the question to the caller.
    pub(super) fn alias(
        &mut self,
        name: &[u8],
        place: Place,
        room: (usize, &mut GoOn<'_>),
    ) -> Result<(), Error> {
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
        self.count(1, 0, place);
        match anchor.target {
            Target::Open => {
                let nodes = self.counted.nodes - anchor.before;
                self.count(nodes, nodes, place);
                let around = ["anchor '", "' value contains itself"];
                self.fail(Error::quoting(around, &shown(name), place));
                self.repeat_scalar(Value::Null, 0..0, place);
            }
            Target::Scalar { value, start, end } => {
                self.count(1, 1, place);
                self.make_room(end.get() - start.get(), room)?;
                self.repeat_scalar(value, start.get()..end.get(), place);
            }
            Target::Collection(collection) => {
                self.count(collection.nodes, collection.nodes, place);
                self.repeat_collection(collection, place);
            }
        }
        self.done(slot);
        Ok(())
    }

    fn repeat_scalar(&mut self, value: Value, text: Range<usize>, place: Place) {
        let is_text = matches!(value, Value::Str | Value::Timestamp | Value::Binary);
        match self.slot() {
            Slot::Merge | Slot::MergeItem => {}
            Slot::Key if is_text => {
                let start = self.start_entry();
                self.raw.extend_from_within(text);
                self.end_key(start);
            }
            Slot::Key => {
                self.write_key(value, b"", place);
            }
            Slot::Root | Slot::Item | Slot::Value if is_text => {
                self.separate();
                self.raw.extend_from_within(text);
            }
            Slot::Root | Slot::Item | Slot::Value => {
                self.write_value(value, b"", place);
            }
        }
    }

    fn repeat_collection(&mut self, collection: Collection, place: Place) {
        let slot = self.slot();
        let is_merge = matches!(slot, Slot::Merge | Slot::MergeItem);
        self.reach(collection.height - usize::from(is_merge));
        if is_merge {
            if let Some(patch) = collection.patch {
                self.merge(MergeSource { patch, size: collection.size }, slot);
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
