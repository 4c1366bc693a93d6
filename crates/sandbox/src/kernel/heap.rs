//! Unsafe code: the heap of the C library.

#![expect(unsafe_code, reason = "mallopt has no safe form")]

use nix::libc;

/// Shortest buffer that the C library maps separately, in bytes. Its memory is given
/// back as soon as it is freed.
const MAPPED: libc::c_int = 1 << 20;

/// Keeps the C library from retaining the memory of large buffers. By itself, it keeps
/// up to 64 MiB for each thread once buffers of 32 MiB were freed, and less after
/// smaller ones.
pub fn give_back_large_buffers() {
    // SAFETY: mallopt(3) takes numbers only, and locks the heap.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED) } == 1;
    debug_assert!(is_set, "the C library accepts thresholds of up to 32 MiB");
}

#[cfg(test)]
mod tests {
    use std::{
        fs, thread,
        time::{Duration, Instant},
    };

    use super::*;

    const LARGE: usize = 24 << 20;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn resident() -> usize {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn memory_of_large_buffers_is_given_back() {
        give_back_large_buffers();
        let before = resident();
        // The first one to be freed would raise the threshold for the second one.
        for length in [LARGE, LARGE - LARGE / 4] {
            let buffer = vec![1_u8; length];
            assert!(resident() >= before + LARGE / 2, "{}", buffer.len());
        }
        // Other tests of this process need memory for a while.
        let until = Instant::now() + PATIENCE;
        while resident() >= before + LARGE / 2 {
            assert!(Instant::now() < until, "it is still there");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
