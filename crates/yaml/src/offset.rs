//! Offsets, half as wide as the machine's.

/// The largest document that is read. Offsets into it, and into the text that
/// is put together from it, then fit into 32 bits, which halves what is
/// copied for every token.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 30;

/// An offset into a document or a text made of it, or a number of things in
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Offset(u32);

impl Offset {
    /// The start.
    pub(super) const ZERO: Self = Self(0);

    /// Of an offset that is in bounds, the same.
    #[inline]
    pub(super) fn new(offset: usize) -> Self {
        Self(u32::try_from(offset).unwrap_or(u32::MAX))
    }

    /// The offset as an index.
    #[inline]
    pub(super) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
