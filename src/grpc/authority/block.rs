//! A header block: a HEADERS frame and the CONTINUATION frames after it.

use std::borrow::Cow;

use super::{
    frame::{self, CONTINUATION, END_HEADERS, HEADERS, Head, MAX_PAYLOAD, PADDED, PRIORITY},
    hpack,
};

/// Bytes of the priority in a HEADERS frame that has the PRIORITY flag.
const PRIORITY_LENGTH: usize = 5;

/// Encodes `frames`, one whole header block, again with a legal authority.
/// Returns `None` if the frames need no change.
///
/// New frames have no padding: it carries no data, and header frames do not
/// count for flow control.
pub(super) fn repair(frames: &[u8]) -> Option<Vec<u8>> {
    let sent = HeaderBlock::gather(frames)?;
    let repaired = hpack::repair(&sent.fragments)?;
    Some(HeaderBlock { fragments: Cow::Owned(repaired), ..sent }.frames())
}

struct HeaderBlock<'a> {
    /// The head of the HEADERS frame.
    head: Head,
    /// Empty or [`PRIORITY_LENGTH`] bytes.
    priority: &'a [u8],
    /// The HPACK bytes of all frames, concatenated.
    fragments: Cow<'a, [u8]>,
}

impl<'a> HeaderBlock<'a> {
    fn gather(frames: &'a [u8]) -> Option<Self> {
        let (head, payload, mut rest) = frame::split_first(frames)?;
        let (priority, fragment) = opened(head, payload)?;
        let mut fragments = Cow::Borrowed(fragment);
        while !rest.is_empty() {
            let (_, fragment, following) = frame::split_first(rest)?;
            fragments.to_mut().extend_from_slice(fragment);
            rest = following;
        }
        Some(Self { head, priority, fragments })
    }

    fn frames(&self) -> Vec<u8> {
        let room = MAX_PAYLOAD - self.priority.len();
        let (fragment, mut rest) = self.fragments.split_at(room.min(self.fragments.len()));
        let mut frames = Vec::new();
        let head = Head {
            length: self.priority.len() + fragment.len(),
            kind: HEADERS,
            flags: self.head.flags & !(PADDED | END_HEADERS) | ending(rest),
            stream: self.head.stream,
        };
        head.put(&mut frames);
        frames.extend_from_slice(self.priority);
        frames.extend_from_slice(fragment);
        while !rest.is_empty() {
            let (fragment, following) = rest.split_at(MAX_PAYLOAD.min(rest.len()));
            let length = fragment.len();
            let flags = ending(following);
            Head { length, kind: CONTINUATION, flags, stream: head.stream }.put(&mut frames);
            frames.extend_from_slice(fragment);
            rest = following;
        }
        frames
    }
}

fn ending(following: &[u8]) -> u8 {
    if following.is_empty() { END_HEADERS } else { 0 }
}

/// Splits the payload of a HEADERS frame into priority and header fragment,
/// without the padding and its length.
fn opened(head: Head, payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (padding, unpadded) = match payload.split_first() {
        Some((&padding, rest)) if head.flags & PADDED != 0 => (usize::from(padding), rest),
        None if head.flags & PADDED != 0 => return None,
        _ => (0, payload),
    };
    let priority_length = if head.flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH };
    let (priority, fragment) = unpadded.split_at_checked(priority_length)?;
    let fragment = fragment.get(..fragment.len().checked_sub(padding)?)?;
    Some((priority, fragment))
}
