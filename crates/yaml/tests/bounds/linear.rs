//! The CPU time for any repeated pattern is proportional to its length.

use std::fs;

use cmp_yaml::{
    portable::portable,
    stream::{self, Receiver},
};

use crate::patterns::{PATTERNS, Pattern};

/// Size of a repeated pattern in bytes. An engine that took one nanosecond for each
/// pair of its bytes would need more than a minute.
const SIZE: usize = 256 << 10;

/// Accepted CPU time for each byte in nanoseconds. Without optimisation, the
/// engine takes about 500, and 4,000 for the slowest pattern: no machine is so busy
/// that it takes ten times as much.
const MOST: u64 = 40_000;

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

/// CPU time for reading a text, in nanoseconds. Other programs hardly
/// change it.
fn processor_time(text: &[u8]) -> u64 {
    let now = || {
        let times = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        times.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0_u64)
    };
    let before = now();
    let _ = stream::read_stdout(text, SIZE, &mut Vec::new(), &mut Portable);
    now() - before
}

#[test]
fn the_time_for_a_repeated_pattern_does_not_explode() {
    let most = MOST * SIZE as u64;
    let is_slow = |pattern: &&Pattern| processor_time(&repeated(**pattern, SIZE)) > most;
    let slow: Vec<_> = PATTERNS.iter().filter(is_slow).collect();
    assert!(slow.is_empty(), "{slow:#?}");
}
