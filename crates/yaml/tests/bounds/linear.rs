//! Four times as much of any pattern takes about four times the processor time.

use std::fs;

use cmp_yaml::{
    portable::portable,
    stream::{self, Receiver},
};

use crate::patterns::{PATTERNS, Pattern};

/// Sizes of a repeated pattern in bytes. Quadratic time grows sixteen-fold
/// between them.
const SMALL: usize = 64 << 10;
const LARGE: usize = 4 * SMALL;

/// Accepted growth of the time between them.
const GROWTH: u64 = 9;

/// Processor time in nanoseconds below which growth says nothing.
const NOISE: u64 = 20_000_000;

/// Measurements before a pattern fails: other programs share the caches.
const ATTEMPTS: usize = 5;

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

fn repeated((start, piece, end): Pattern, size: usize) -> Vec<u8> {
    let mut text = start.to_owned();
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&piece.replace('#', &format!("{number}")));
    }
    [text.as_str(), end, "\n"].concat().into_bytes()
}

/// Processor time for reading a text, in nanoseconds. Other programs hardly
/// change it.
fn processor_time(text: &[u8]) -> u64 {
    let now = || {
        let times = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        times.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0_u64)
    };
    let before = now();
    let _ = stream::read_stdout(text, LARGE, &mut Vec::new(), &mut Portable);
    now() - before
}

fn is_linear(pattern: Pattern) -> bool {
    let (small, large) = (repeated(pattern, SMALL), repeated(pattern, LARGE));
    let mut few = u64::MAX;
    (0..ATTEMPTS).any(|_| {
        let many = processor_time(&large);
        few = if many < NOISE { few } else { few.min(processor_time(&small)) };
        many < NOISE || many < GROWTH * few
    })
}

#[test]
fn the_time_for_a_repeated_pattern_grows_with_its_length() {
    let superlinear: Vec<_> = PATTERNS.iter().filter(|pattern| !is_linear(**pattern)).collect();
    assert!(superlinear.is_empty(), "{superlinear:#?}");
}
