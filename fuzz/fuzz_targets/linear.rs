//! The CPU time for a repeated pattern is proportional to its length, for any
//! pattern.
//!
//! The input is separated by NUL: the start, the pattern with `#` for the number
//! of the repetition, and the end. The first byte chooses the reader.

#![no_main]

use cmp_supervisor::request::announcement::announce;
use cmp_yaml::{
    portable::portable,
    stream::{self, Receiver},
};
use libfuzzer_sys::fuzz_target;
use rustix::time::{ClockId, clock_gettime};

/// Size of a text in bytes. A reader that took one nanosecond for each pair of its
/// bytes would need more than a minute.
const SIZE: usize = 256 << 10;

/// Longest result in bytes. Aliases grow with the limit, not with the text.
const MAX_BYTES: usize = SIZE;

/// Accepted CPU time in seconds. The slowest known pattern takes 0.03 s.
const MOST: f64 = 3.0;

fuzz_target!(|data: &[u8]| {
    let Some((reader, rest)) = data.split_first() else { return };
    let parts: Vec<&[u8]> = rest.split(|byte| *byte == 0).collect();
    let [start, piece, end] = parts.as_slice() else { return };
    if piece.is_empty() || start.len() + end.len() > SIZE / 64 {
        return;
    }
    let read = if reader % 4 == 0 { read_announcements } else { read_output };
    let took = seconds(&repeated(start, piece, end, SIZE), read);
    assert!(took < MOST, "{took} s of CPU time");
});

fn repeated(start: &[u8], piece: &[u8], end: &[u8], size: usize) -> Vec<u8> {
    let mut text = start.to_vec();
    let parts: Vec<&[u8]> = piece.split(|byte| *byte == b'#').collect();
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        text.extend(parts.join(format!("{number}").as_bytes()));
    }
    text.extend_from_slice(end);
    text
}

fn read_output(text: &[u8]) {
    let _ = stream::read_stdout(text, MAX_BYTES, &mut Vec::new(), &mut Portable);
}

fn read_announcements(text: &[u8]) {
    let _ = announce(Some(text), &[]);
}

/// Respells each manifest, as the product does.
struct Portable;

impl Receiver for Portable {
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool {
        let _ = portable(&text[start..]);
        true
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

/// CPU time of this thread, which other programs do not change.
fn seconds(text: &[u8], read: fn(&[u8])) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let before = now();
    read(text);
    now() - before
}
