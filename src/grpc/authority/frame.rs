//! HTTP/2 frames (RFC 9113, section 4.1), as far as header blocks need them.

/// Length of a frame's head in bytes.
pub(super) const HEAD_LENGTH: usize = 9;

/// Longest payload in bytes that every receiver accepts (RFC 9113, 4.2).
pub(super) const MAX_PAYLOAD: usize = 16_384;

/// Types of frames (RFC 9113, 6.2 and 6.10).
pub(super) const HEADERS: u8 = 0x1;
pub(super) const CONTINUATION: u8 = 0x9;

/// Flags of these frames.
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Length of the payload in bytes, below 2²⁴.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// The stream's identifier as sent, including the reserved bit.
    pub(super) stream: [u8; 4],
}

impl Head {
    /// Parses the head at the front of `bytes`, if it is complete.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEAD_LENGTH>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { length, kind, flags, stream })
    }

    pub(super) fn ends_headers(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// True if this frame may follow `other` in one header block.
    pub(super) fn continues(self, other: Self) -> bool {
        self.kind == CONTINUATION && self.stream == other.stream
    }

    pub(super) fn put(self, frames: &mut Vec<u8>) {
        let [low, middle, high, ..] = self.length.to_le_bytes();
        frames.extend_from_slice(&[high, middle, low, self.kind, self.flags]);
        frames.extend_from_slice(&self.stream);
    }
}

/// Splits off the first frame: its head, its payload and the remaining frames.
pub(super) fn split_first(frames: &[u8]) -> Option<(Head, &[u8], &[u8])> {
    let head = Head::parse(frames)?;
    let (payload, rest) = frames.get(HEAD_LENGTH..)?.split_at_checked(head.length)?;
    Some((head, payload, rest))
}
