//! The bytes of a client, with every variant that HTTP/2 and HPACK allow.

use std::sync::LazyLock;

use super::super::{
    frame::{CONTINUATION, END_HEADERS, HEADERS, Head, PADDED, PRIORITY},
    huffman::WIDTHS,
};

pub(super) const DATA: u8 = 0x0;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Indices in the static table.
pub(super) const AUTHORITY_INDEX: usize = 1;
const PATH_INDEX: usize = 4;
const POST: u8 = 0x80 | 3;
const HTTP: u8 = 0x80 | 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Raw,
    Huffman,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexing {
    Incremental,
    Without,
    Never,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    Index(usize),
    Literal(Coding, &'a [u8]),
}

/// The way a header block is split into frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Framing {
    pub(super) padding: Option<u8>,
    pub(super) priority: bool,
    /// Offsets in the block at which CONTINUATION frames begin, ascending.
    pub(super) cuts: Vec<usize>,
}

/// The preface and an empty SETTINGS frame.
pub(super) fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    Head { length: payload.len(), kind, flags, stream: stream.to_be_bytes() }.put(&mut frame);
    frame.extend_from_slice(payload);
    frame
}

/// The frames of a request without a body.
pub(super) fn headers(stream: u32, block: &[u8], framing: &Framing) -> Vec<u8> {
    let ends = framing.cuts.iter().copied().chain([block.len()]);
    let mut start = 0;
    let mut frames = Vec::new();
    for (number, end) in ends.enumerate() {
        let fragment = &block[start..end];
        let last = if end == block.len() && number == framing.cuts.len() { END_HEADERS } else { 0 };
        frames.extend(if number == 0 {
            first(stream, fragment, last | END_STREAM, framing)
        } else {
            frame(CONTINUATION, last, stream, fragment)
        });
        start = end;
    }
    frames
}

fn first(stream: u32, fragment: &[u8], mut flags: u8, framing: &Framing) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(padding) = framing.padding {
        flags |= PADDED;
        payload.push(padding);
    }
    if framing.priority {
        flags |= PRIORITY;
        payload.extend_from_slice(&[0, 0, 0, 0, 15]);
    }
    payload.extend_from_slice(fragment);
    payload.resize(payload.len() + usize::from(framing.padding.unwrap_or(0)), 0);
    frame(HEADERS, flags, stream, &payload)
}

/// A request's header block: fixed fields, the encoded `authority`, then `rest`.
pub(super) fn block(authority: &[u8], rest: &[u8]) -> Vec<u8> {
    let path = literal(Indexing::Without, Name::Index(PATH_INDEX), Coding::Raw, b"/p.S/M");
    [&[POST, HTTP], path.as_slice(), authority, rest].concat()
}

pub(super) fn authority(value: &[u8]) -> Vec<u8> {
    literal(Indexing::Incremental, Name::Index(AUTHORITY_INDEX), Coding::Huffman, value)
}

pub(super) fn indexed(index: usize) -> Vec<u8> {
    integer(0x80, 7, index)
}

pub(super) fn size_update(size: usize) -> Vec<u8> {
    integer(0x20, 5, size)
}

pub(super) fn literal(indexing: Indexing, name: Name<'_>, coding: Coding, value: &[u8]) -> Vec<u8> {
    let (pattern, prefix_bits) = match indexing {
        Indexing::Incremental => (0x40, 6),
        Indexing::Without => (0x00, 4),
        Indexing::Never => (0x10, 4),
    };
    let mut field = match name {
        Name::Index(index) => integer(pattern, prefix_bits, index),
        Name::Literal(coding, name) => [vec![pattern], string(coding, name)].concat(),
    };
    field.extend(string(coding, value));
    field
}

pub(super) fn string(coding: Coding, text: &[u8]) -> Vec<u8> {
    let (flag, bytes) = match coding {
        Coding::Raw => (0, text.to_vec()),
        Coding::Huffman => (0x80, huffman(text)),
    };
    [integer(flag, 7, bytes.len()), bytes].concat()
}

pub(super) fn integer(pattern: u8, prefix_bits: u32, value: usize) -> Vec<u8> {
    let limit = (1 << prefix_bits) - 1;
    if value < limit {
        return vec![pattern | u8::try_from(value).unwrap()];
    }
    let mut bytes = vec![pattern | u8::try_from(limit).unwrap()];
    let mut rest = value - limit;
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest % 0x80).unwrap() | 0x80);
        rest /= 0x80;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

fn huffman(text: &[u8]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    for byte in text {
        let code = CODES[usize::from(*byte)];
        bits.extend((0..WIDTHS[usize::from(*byte)]).rev().map(|place| code >> place & 1 == 1));
    }
    bits.resize(bits.len().next_multiple_of(8), true);
    bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
}

static CODES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..=u8::MAX).map(code_of).collect());

/// The canonical code of a byte, computed from the widths of all codes before it.
fn code_of(byte: u8) -> u32 {
    let place = |byte: u8| (WIDTHS[usize::from(byte)], byte);
    let before = (0..=u8::MAX).filter(|other| place(*other) < place(byte));
    let units: u32 = before.map(|other| 1 << (30 - WIDTHS[usize::from(other)])).sum();
    units >> (30 - WIDTHS[usize::from(byte)])
}
