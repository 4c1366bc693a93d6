//! Memory that files on a volume in memory take.

/// Estimate of the kernel's memory for a file, directory or link besides its contents. On
/// Linux 6.18, 0.9 KiB for its inode and name; 0.5 KiB more for a name of 250 bytes, and
/// 0.6 KiB more for the index of contents that are longer than a page
/// (docs/measurements.md#files-in-memory). Few files have both.
const FILE: u64 = 1536;

/// Bytes of memory that so many files take, whose contents take `bytes`.
#[must_use]
pub fn memory_of_files(bytes: u64, files: u64) -> u64 {
    bytes.saturating_add(files.saturating_mul(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_takes_memory() {
        assert_eq!(memory_of_files(4096, 2), 4096 + 2 * FILE);
        assert_eq!(memory_of_files(1, u64::MAX), u64::MAX);
    }
}
