//! Blocks that no honest client sends pass unchanged, and h2 answers them.

use bytes::BytesMut;

use super::{
    super::{
        frame::{CONTINUATION, END_HEADERS, HEAD_LENGTH, HEADERS, PADDED, PRIORITY},
        repair::{MAX_BLOCK, Repair},
    },
    client::{DATA, Framing, authority, block, frame, headers, opening},
    pieces::pushed,
    server::{End, repaired, stock},
};

const ILLEGAL: &[u8] = b"/run/p.sock";

/// Asserts that all bytes pass unchanged, and that h2 ends as it does without the repair.
#[track_caller]
fn assert_left_to_h2(frames: &[u8]) {
    let bytes = [opening(), frames.to_vec()].concat();
    for piece in [1, 10, 4_096] {
        assert_eq!(pushed(&bytes, piece), bytes);
        for end in [End::Silence, End::Hangup] {
            assert_eq!(repaired(&bytes, piece, end), stock(&bytes, piece, end));
        }
    }
}

fn closed(block: &[u8]) -> Vec<u8> {
    headers(1, block, &Framing::default())
}

/// Frames of a block that does not end before `length` bytes.
fn flood(fragment: &[u8], length: usize) -> Vec<u8> {
    let mut frames = frame(HEADERS, 0, 1, &block(&authority(ILLEGAL), &[]));
    while frames.len() < length {
        frames.extend(frame(CONTINUATION, 0, 1, fragment));
    }
    frames
}

#[test]
fn unreadable_blocks_are_left_to_h2() {
    let good = authority(ILLEGAL);
    let blocks: [&[u8]; 16] = [
        // an endless integer: as index, name index, length and size
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        // a truncated integer
        &[0xff],
        &[0x41, 0xff, 0x80],
        // a string that ends beyond the block
        &[0x41, 0x05, b'/', b'a'],
        &[0x41, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x40, 0x0a, b':', b'a'],
        // a name without a value
        &[0x41],
        &[0x40, 0x01, b'x'],
        // Huffman: padding of zeros, padding of eight bits, the end of string
        &[0x41, 0x81, 0b0001_1000],
        &[0x41, 0x82, 0b0001_1111, 0xff],
        &[0x41, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x40, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, b'/'],
        // index zero is invalid
        &[0x80],
    ];
    for bad in blocks {
        assert_left_to_h2(&closed(bad));
        assert_left_to_h2(&closed(&block(bad, &[])));
        // h2 refuses a block at index zero, so nothing after it matters.
        if bad != [0x80] {
            assert_left_to_h2(&closed(&[good.as_slice(), bad].concat()));
        }
    }
}

#[test]
fn every_truncated_block_is_left_to_h2() {
    let whole = block(&authority(ILLEGAL), &[]);
    let start = whole.len() - authority(ILLEGAL).len();
    for length in start + 1..whole.len() {
        assert_left_to_h2(&closed(&whole[..length]));
    }
}

#[test]
fn every_truncated_frame_is_left_to_h2() {
    let framing = Framing { padding: Some(2), priority: true, cuts: vec![5, 9] };
    let whole = headers(1, &block(&authority(ILLEGAL), &[]), &framing);
    for length in 0..whole.len() {
        assert_left_to_h2(&whole[..length]);
    }
}

#[test]
fn impossible_frames_are_left_to_h2() {
    let cases = [
        frame(HEADERS, END_HEADERS | PADDED, 1, &[]),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[5, 0x82, 0, 0, 0]),
        frame(HEADERS, END_HEADERS | PRIORITY, 1, &[0, 0, 0, 0]),
        frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 1, &[1, 0, 0, 0, 0, 9]),
        frame(HEADERS, END_HEADERS, 1, &[]),
        frame(HEADERS, END_HEADERS, 0, &[0x82]),
        frame(CONTINUATION, END_HEADERS, 1, &block(&authority(ILLEGAL), &[])),
        // longer than the maximum that h2 announced
        frame(HEADERS, END_HEADERS, 1, &b"\0".repeat(16_385)),
        frame(HEADERS, END_HEADERS, 1, &b"\0".repeat(MAX_BLOCK + 1))[..4_000].to_vec(),
        vec![0xff, 0xff, 0xff, HEADERS, END_HEADERS, 0, 0, 0, 1],
    ];
    for frames in cases {
        assert_left_to_h2(&frames);
    }
}

#[test]
fn a_block_interrupted_by_another_frame_is_left_to_h2() {
    let opened = frame(HEADERS, 0, 1, &block(&authority(ILLEGAL), &[]));
    let intruders = [
        frame(DATA, 0, 1, b"data"),
        frame(CONTINUATION, END_HEADERS, 3, &[]),
        closed(&block(&authority(ILLEGAL), &[])),
        frame(0x55, 0, 1, b"unknown"),
    ];
    for intruder in intruders {
        assert_left_to_h2(&[opened.clone(), intruder].concat());
    }
}

#[test]
fn floods_are_left_to_h2() {
    assert_left_to_h2(&flood(&[], 2 * MAX_BLOCK));
    assert_left_to_h2(&flood(&[0x00], 2 * MAX_BLOCK));
    assert_left_to_h2(&flood(&[0xff; 16_384], 2 * MAX_BLOCK));
}

#[test]
fn held_bytes_stay_below_the_limit() {
    for fragment in [&[][..], &[0x00], &[0xff; 16_384]] {
        let bytes = [opening(), flood(fragment, 2 * MAX_BLOCK)].concat();
        let (mut repair, mut output) = (Repair::default(), BytesMut::new());
        let mut most = 0;
        for (sent, byte) in bytes.iter().enumerate() {
            repair.push(&[*byte], &mut output);
            most = most.max(sent + 1 - output.len());
        }
        assert!(most <= MAX_BLOCK + HEAD_LENGTH, "{most} bytes");
        assert!(most > MAX_BLOCK - 16_384 - 9, "{most} bytes");
    }
}

#[test]
fn the_longest_allowed_block_is_repaired() {
    let field = block(&authority(ILLEGAL), &[]);
    for (length, changes) in [(MAX_BLOCK, true), (MAX_BLOCK + 1, false)] {
        let filler = vec![0x82; length - 9 - field.len()];
        let frames = closed(&[field.as_slice(), &filler].concat());
        let bytes = [opening(), frames].concat();
        assert_eq!(pushed(&bytes, 1_000) != bytes, changes, "{length} bytes");
    }
}
