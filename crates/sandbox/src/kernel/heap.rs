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
    use std::fs;

    use super::*;

    const LARGE: usize = 24 << 20;

    /// True if this process has memory at an address.
    fn is_mapped(address: usize) -> bool {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let holds = |line: &str| {
            let (first, rest) = line.split_once('-')?;
            let [first, end] =
                [first, rest.split(' ').next()?].map(|hex| usize::from_str_radix(hex, 16).unwrap());
            (first..end).contains(&address).then_some(())
        };
        maps.lines().any(|line| holds(line).is_some())
    }

    #[test]
    fn memory_of_large_buffers_is_given_back() {
        give_back_large_buffers();
        // The first one to be freed would raise the threshold for the second one.
        for length in [LARGE, LARGE - LARGE / 4] {
            let buffer = vec![1_u8; length];
            // Other tests get memory at the ends of a gap first.
            let middle = buffer.as_ptr() as usize + length / 2;
            assert!(is_mapped(middle));
            drop(buffer);
            assert!(!is_mapped(middle), "{length}");
        }
    }
}
