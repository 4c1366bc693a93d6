//! Walks over the bytes of a connection, frame by frame.

use bytes::BytesMut;

use super::{
    block,
    frame::{HEAD_LENGTH, HEADERS, Head},
};

/// The bytes that every HTTP/2 client sends before its first frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Longest header block that is examined, including frame heads and padding, in
/// bytes. hyper refuses requests with more than 16 KiB of decoded headers.
pub(super) const MAX_BLOCK: usize = 64 * 1024;

/// Replaces illegal authorities in the bytes that a client sends.
///
/// The input may be cut into pieces anywhere; this does not change the output.
/// Everything except an illegal authority comes out unchanged, malformed input
/// included: h2 knows the right error for each fault and ends the connection.
///
/// Holds back an incomplete header block, or the head of a frame that may start
/// one: at most [`MAX_BLOCK`] and 9 bytes. Longer blocks pass unchanged.
#[derive(Debug, Default)]
pub(super) struct Repair {
    position: Position,
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    /// In the preface.
    Preface { seen: usize },
    /// The peer does not speak HTTP/2, so there are no frames.
    Foreign,
    /// In a frame that passes unchanged; `remaining` bytes of it are missing.
    Passing { remaining: usize },
    /// In a header block, or in a frame's head that may start one.
    Holding(Awaited),
}

/// The bytes needed for the next step.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// A frame's head; the frame begins at `start` of the held bytes.
    Head { start: usize },
    /// The payload of a header frame, which ends at `end` of the held bytes.
    Payload { head: Head, end: usize },
}

impl Awaited {
    /// Number of held bytes that completes this value.
    fn end(self) -> usize {
        match self {
            Self::Head { start } => start + HEAD_LENGTH,
            Self::Payload { end, .. } => end,
        }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::Preface { seen: 0 }
    }
}

impl Repair {
    /// Takes the next input and appends to `output` all bytes that can pass.
    pub(super) fn push(&mut self, mut input: &[u8], output: &mut BytesMut) {
        while !input.is_empty() {
            let (passed, rest) = input.split_at(self.pass(input));
            output.extend_from_slice(passed);
            input = self.hold(rest, output);
        }
    }

    /// The first step of [`push`](Self::push), without a copy: returns the number
    /// of bytes at the front of `input` that pass unchanged. Push the others.
    pub(super) fn pass(&mut self, input: &[u8]) -> usize {
        if let Position::Preface { seen } = self.position {
            self.position = preface(seen, input);
        }
        match self.position {
            Position::Preface { .. } | Position::Foreign => input.len(),
            Position::Passing { remaining } => self.pass_frames(remaining, input),
            Position::Holding(_) => 0,
        }
    }

    /// Ends the input. The held bytes pass unchanged, so h2 sees the same
    /// truncated frame.
    pub(super) fn finish(&mut self, output: &mut BytesMut) {
        self.release(output);
        self.position = Position::Foreign;
    }

    /// Skips whole frames up to one that starts, or may start, a header block.
    fn pass_frames(&mut self, remaining: usize, input: &[u8]) -> usize {
        let mut next = remaining;
        while let Some(rest) = input.get(next..).filter(|rest| !rest.is_empty()) {
            match Head::parse(rest) {
                Some(head) if head.kind != HEADERS => next += HEAD_LENGTH + head.length,
                _ => {
                    self.position = Position::Holding(Awaited::Head { start: 0 });
                    return next;
                }
            }
        }
        self.position = Position::Passing { remaining: next - input.len() };
        input.len()
    }

    /// Moves the missing bytes from `input` to the held ones; returns the rest.
    fn hold<'a>(&mut self, mut input: &'a [u8], output: &mut BytesMut) -> &'a [u8] {
        while let Position::Holding(part) = self.position {
            let missing = part.end().saturating_sub(self.held.len());
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.held.extend_from_slice(taken);
            input = rest;
            if taken.len() < missing {
                break;
            }
            self.position = match part {
                Awaited::Head { start } => self.on_head(start, output),
                Awaited::Payload { head, end } => self.on_payload(head, end, output),
            };
        }
        input
    }

    /// Decides whether the frame whose head is at `start` belongs to a block.
    ///
    /// If a block is interrupted by another frame, or becomes too long, all of it
    /// passes unchanged.
    fn on_head(&mut self, start: usize, output: &mut BytesMut) -> Position {
        let Some(head) = self.held.get(start..).and_then(Head::parse) else {
            return Position::Holding(Awaited::Head { start });
        };
        let end = self.held.len() + head.length;
        let belongs = match Head::parse(&self.held) {
            Some(first) if start > 0 => head.continues(first),
            _ => head.kind == HEADERS,
        };
        if belongs && end <= MAX_BLOCK {
            return Position::Holding(Awaited::Payload { head, end });
        }
        self.release(output);
        Position::Passing { remaining: head.length }
    }

    /// Handles a complete header frame; after the last one, repairs the block.
    fn on_payload(&mut self, head: Head, end: usize, output: &mut BytesMut) -> Position {
        if !head.ends_headers() {
            return Position::Holding(Awaited::Head { start: end });
        }
        match block::repair(&self.held) {
            Some(frames) => {
                output.extend_from_slice(&frames);
                self.held.clear();
            }
            None => self.release(output),
        }
        Position::Passing { remaining: 0 }
    }

    fn release(&mut self, output: &mut BytesMut) {
        output.extend_from_slice(&self.held);
        self.held.clear();
    }
}

/// The position in the connection after `input`, which follows `seen` bytes of the preface.
fn preface(seen: usize, input: &[u8]) -> Position {
    let expected = PREFACE.get(seen..).unwrap_or_default();
    let compared = expected.len().min(input.len());
    if expected.get(..compared) != input.get(..compared) {
        Position::Foreign
    } else if compared == expected.len() {
        Position::Passing { remaining: compared }
    } else {
        Position::Preface { seen: seen + compared }
    }
}
