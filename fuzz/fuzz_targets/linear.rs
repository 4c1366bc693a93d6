//! A repeated pattern: four times as many repetitions take about four times the
//! processor time, for any pattern.
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

/// Sizes of the two texts in bytes. Quadratic time would grow sixteen-fold.
const SMALL: usize = 64 << 10;
const LARGE: usize = 4 * SMALL;

/// Longest result in bytes. Aliases grow with the limit, not with the text.
const MAX_BYTES: usize = LARGE;

/// Seconds below which a time says nothing.
const NOISE: f64 = 0.02;

/// Accepted growth: linear, with caches that become too small.
const GROWTH: f64 = 9.0;

/// Times each text is read; the shortest time counts.
const REPEATS: usize = 3;

fuzz_target!(|data: &[u8]| {
    let Some((reader, rest)) = data.split_first() else { return };
    let parts: Vec<&[u8]> = rest.split(|byte| *byte == 0).collect();
    let [start, piece, end] = parts.as_slice() else { return };
    if piece.is_empty() || start.len() + end.len() > SMALL / 16 {
        return;
    }
    let read = if reader % 4 == 0 { read_announcements } else { read_output };
    let large = repeated(start, piece, end, LARGE);
    // Most patterns end here.
    if seconds(&large, read, 1) < NOISE {
        return;
    }
    let small = repeated(start, piece, end, SMALL);
    let (few, many) = (seconds(&small, read, REPEATS), seconds(&large, read, REPEATS));
    assert!(many < NOISE || many < GROWTH * few, "{few} s, and {many} s for four times as much");
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
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) {
        let _ = portable(&text[start..]);
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

/// Processor time of this thread, which other programs do not change.
fn seconds(text: &[u8], read: fn(&[u8]), repeats: usize) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let times = (0..repeats).map(|_| {
        let before = now();
        read(text);
        now() - before
    });
    times.fold(f64::INFINITY, f64::min)
}
