//! Offsets of 32 bits.

/// Largest document, in bytes: 1 GiB. Offsets into the document and its JSON
/// then fit into 32 bits, which halves the size of tokens.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 30;

/// An offset or a count, stored in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Offset(u32);

impl Offset {
    pub(super) const ZERO: Self = Self(0);

    /// Converts an offset. Offsets beyond 32 bits become the largest value.
    #[inline]
    pub(super) fn new(offset: usize) -> Self {
        Self(u32::try_from(offset).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(super) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
