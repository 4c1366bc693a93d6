//! The walk over a connection's bytes, a frame at a time.

use bytes::BytesMut;

use super::{
    block,
    frame::{HEAD_LENGTH, HEADERS, Head},
};

/// What every HTTP/2 client sends before its first frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest header block, frame heads and padding included, that is looked
/// into. hyper refuses requests whose headers, decoded, exceed 16 KiB.
pub(super) const MAX_BLOCK: usize = 64 * 1024;

/// Makes the authority of every request legal in what a client sends.
///
/// A state machine over bytes in pieces of any size; how they are cut has no
/// influence on what comes out. Everything but an illegal authority comes out as
/// it went in, above all what is malformed: h2, behind it, knows the error that
/// each fault deserves and ends the connection, and a second opinion here could
/// only differ from it.
///
/// Holds back an incomplete header block, and the head of a frame that may belong
/// to one: at most [`MAX_BLOCK`] and 9 bytes. A longer block goes on as it is.
#[derive(Debug, Default)]
pub(super) struct Repair {
    stage: Stage,
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Within the preface.
    Preface { seen: usize },
    /// What speaks is not HTTP/2, and has no frames.
    Foreign,
    /// Within a frame that goes on as it is; none remains at its end.
    Passing { remaining: usize },
    /// Within a header block, or the head of what may begin one.
    Holding(Part),
}

/// What is waited for before the next step.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A frame's head; the frame begins at `start` of what is held.
    Head { start: usize },
    /// A header frame's payload, which ends at `end` of what is held.
    Payload { head: Head, end: usize },
}

impl Part {
    /// How many bytes will be held when it is complete.
    fn end(self) -> usize {
        match self {
            Self::Head { start } => start + HEAD_LENGTH,
            Self::Payload { end, .. } => end,
        }
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::Preface { seen: 0 }
    }
}

impl Repair {
    /// Takes what the client sent next, and puts what can go on into `output`.
    pub(super) fn push(&mut self, mut input: &[u8], output: &mut BytesMut) {
        while !input.is_empty() {
            let (passed, rest) = input.split_at(self.pass(input));
            output.extend_from_slice(passed);
            input = self.hold(rest, output);
        }
    }

    /// The first step of [`push`](Self::push), without a copy: how many bytes at
    /// the front of `input` go on as they are. The others are to be pushed.
    pub(super) fn pass(&mut self, input: &[u8]) -> usize {
        if let Stage::Preface { seen } = self.stage {
            self.stage = preface(seen, input);
        }
        match self.stage {
            Stage::Preface { .. } | Stage::Foreign => input.len(),
            Stage::Passing { remaining } => self.pass_frames(remaining, input),
            Stage::Holding(_) => 0,
        }
    }

    /// The client will send no more: what was held back goes on as it is, so
    /// that h2 sees the same truncated frame.
    pub(super) fn finish(&mut self, output: &mut BytesMut) {
        self.release(output);
        self.stage = Stage::Foreign;
    }

    /// Moves over whole frames until one is, or may be, the start of a block.
    fn pass_frames(&mut self, remaining: usize, input: &[u8]) -> usize {
        let mut next = remaining;
        while let Some(rest) = input.get(next..).filter(|rest| !rest.is_empty()) {
            match Head::parse(rest) {
                Some(head) if head.kind != HEADERS => next += HEAD_LENGTH + head.length,
                _ => {
                    self.stage = Stage::Holding(Part::Head { start: 0 });
                    return next;
                }
            }
        }
        self.stage = Stage::Passing { remaining: next - input.len() };
        input.len()
    }

    /// Takes from `input` what is waited for, and gives back the rest.
    fn hold<'a>(&mut self, mut input: &'a [u8], output: &mut BytesMut) -> &'a [u8] {
        while let Stage::Holding(part) = self.stage {
            let missing = part.end().saturating_sub(self.held.len());
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.held.extend_from_slice(taken);
            input = rest;
            if taken.len() < missing {
                break;
            }
            self.stage = match part {
                Part::Head { start } => self.judge(start, output),
                Part::Payload { head, end } => self.close(head, end, output),
            };
        }
        input
    }

    /// The head at `start` is complete: does its frame belong to a header block?
    ///
    /// Where a block is broken off by a frame that must not follow, or grows too
    /// long, h2 gets all of it as it is.
    fn judge(&mut self, start: usize, output: &mut BytesMut) -> Stage {
        let Some(head) = self.held.get(start..).and_then(Head::parse) else {
            return Stage::Holding(Part::Head { start });
        };
        let end = self.held.len() + head.length;
        let belongs = match Head::parse(&self.held) {
            Some(first) if start > 0 => head.continues(first),
            _ => head.kind == HEADERS,
        };
        if belongs && end <= MAX_BLOCK {
            return Stage::Holding(Part::Payload { head, end });
        }
        self.release(output);
        Stage::Passing { remaining: head.length }
    }

    /// The frame with `head` is complete: was it the last of its header block?
    fn close(&mut self, head: Head, end: usize, output: &mut BytesMut) -> Stage {
        if !head.ends_headers() {
            return Stage::Holding(Part::Head { start: end });
        }
        match block::repair(&self.held) {
            Some(frames) => {
                output.extend_from_slice(&frames);
                self.held.clear();
            }
            None => self.release(output),
        }
        Stage::Passing { remaining: 0 }
    }

    fn release(&mut self, output: &mut BytesMut) {
        output.extend_from_slice(&self.held);
        self.held.clear();
    }
}

/// Where the connection stands when `input` follows `seen` bytes of the preface.
fn preface(seen: usize, input: &[u8]) -> Stage {
    let expected = PREFACE.get(seen..).unwrap_or_default();
    let compared = expected.len().min(input.len());
    if expected.get(..compared) != input.get(..compared) {
        Stage::Foreign
    } else if compared == expected.len() {
        Stage::Passing { remaining: compared }
    } else {
        Stage::Preface { seen: seen + compared }
    }
}
