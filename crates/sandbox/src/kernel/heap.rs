//! Unsafe code: the heap of the C library.

#![expect(unsafe_code, reason = "mallopt and malloc_trim have no safe form")]

use nix::libc;

/// Shortest buffer that the C library maps separately, in bytes. Its memory is given
/// back as soon as it is freed.
const MAPPED: libc::c_int = 1 << 20;

/// Keeps the C library from retaining the memory of large buffers. By itself, it keeps
/// up to 64 MiB for each thread once buffers of 32 MiB were freed, and less after
/// smaller ones.
pub fn give_back_large_buffers() {
    // SAFETY: mallopt(3) takes numbers only, and locks the main heap. A thread that allocates
    // from another one meanwhile uses the old threshold or the new one, and both are valid.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED) } == 1;
    debug_assert!(is_set, "the C library accepts thresholds of up to 32 MiB");
}

/// Gives the free memory of all heaps back. The C library by itself does so only at the end
/// of a heap, where a small buffer that is still in use keeps all before it.
pub fn give_back_free_memory() {
    // SAFETY: malloc_trim(3) takes a number only, and locks each heap.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::unistd::{SysconfVar, sysconf};

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

    /// Bytes of an address range that are in memory.
    fn resident(start: usize, length: usize) -> usize {
        let page = sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap();
        let page = usize::try_from(page).unwrap();
        let first = start.next_multiple_of(page);
        let mut states = vec![0_u8; (start + length - first) / page];
        // SAFETY: the range belongs to a buffer of this process, and `states` has a byte
        // for each of its pages.
        let found = unsafe {
            libc::mincore(first as *mut libc::c_void, states.len() * page, states.as_mut_ptr())
        };
        assert_eq!(found, 0);
        states.iter().filter(|&&state| state & 1 == 1).count() * page
    }

    #[test]
    fn free_memory_between_buffers_is_given_back() {
        let mut buffers: Vec<Vec<u8>> = (0..200).map(|_| vec![1; 40 << 10]).collect();
        let last = buffers.pop().unwrap();
        let (start, length) = (buffers[100].as_ptr() as usize, 20 * (40 << 10));
        drop(buffers);
        assert!(resident(start, length) > length / 2);
        give_back_free_memory();
        assert!(resident(start, length) < length / 10);
        drop(last);
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
