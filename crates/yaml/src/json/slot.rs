//! The roles of nodes.

/// The role of a node in its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Root,
    Item,
    Key,
    Value,
    /// The value of the key `<<`.
    Merge,
    /// An item of the sequence that is the value of `<<`.
    MergeItem,
}
