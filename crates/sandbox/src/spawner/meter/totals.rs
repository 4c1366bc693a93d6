//! Adds up usage and compares it with the limits.

use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Reasons to end a measurement early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeterError {
    /// A limit is exceeded.
    Exceeded(ExceededLimit),
    /// Something could not be read, so usage is unknown.
    Unreadable,
}

/// Usage counted so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    limits: RequestLimits,
    disk: u64,
    files: u64,
    /// Bytes of open files in memory.
    open_memory: u64,
    /// Files that exist but cannot be measured.
    hidden: u64,
}

impl Totals {
    pub(super) fn new(limits: RequestLimits) -> Self {
        Self { limits, disk: 0, files: 0, open_memory: 0, hidden: 0 }
    }

    /// Returns true if a limit requires counting files.
    pub(super) fn counts_files(&self) -> bool {
        self.limits.disk.is_some() || self.limits.files.is_some()
    }

    /// Adds a file or directory that takes this many bytes.
    pub(super) fn file(&mut self, bytes: u64) -> Result<(), MeterError> {
        self.files += 1;
        self.disk = self.disk.saturating_add(bytes);
        let RequestLimits { disk, files, .. } = self.limits;
        if disk.is_some_and(|disk| self.disk > disk) {
            return Err(MeterError::Exceeded(ExceededLimit::Disk));
        }
        if files.is_some_and(|files| self.files > files) {
            return Err(MeterError::Exceeded(ExceededLimit::Files));
        }
        Ok(())
    }

    /// Adds a file in memory that has no name.
    pub(super) fn memory_file(&mut self, bytes: u64) {
        self.open_memory = self.open_memory.saturating_add(bytes);
    }

    /// Adds files that cannot be measured.
    pub(super) fn hidden(&mut self, files: u64) {
        self.hidden = self.hidden.saturating_add(files);
    }

    /// Returns true if this memory exceeds the limit. Shared memory may be the
    /// same as open files in memory, so the larger of both counts.
    pub(super) fn is_too_much(&self, own: u64, shared: u64) -> bool {
        let all = own.saturating_add(shared.max(self.open_memory));
        self.limits.memory.is_some_and(|memory| all > memory)
    }

    /// The final check: each file that cannot be measured counts with the
    /// largest size that the kernel allows.
    pub(super) fn finish(&self) -> Result<(), MeterError> {
        let RequestLimits { disk, file_size, .. } = self.limits;
        let largest = file_size.unwrap_or(u64::MAX);
        let most = self.disk.saturating_add(largest.saturating_mul(self.hidden));
        if self.hidden > 0 && disk.is_some_and(|disk| most > disk) {
            Err(MeterError::Unreadable)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: RequestLimits =
        RequestLimits { memory: None, disk: None, files: None, file_size: None, processes: None };

    #[test]
    fn one_byte_or_file_more_exceeds_a_limit() {
        let mut disk = Totals::new(RequestLimits { disk: Some(100), ..NONE });
        assert_eq!(disk.file(60), Ok(()));
        assert_eq!(disk.file(40), Ok(()));
        assert_eq!(disk.file(1), Err(MeterError::Exceeded(ExceededLimit::Disk)));
        let mut files = Totals::new(RequestLimits { files: Some(1), ..NONE });
        assert_eq!(files.file(1000), Ok(()));
        assert_eq!(files.file(0), Err(MeterError::Exceeded(ExceededLimit::Files)));
    }

    #[test]
    fn without_a_limit_nothing_is_exceeded() {
        let mut totals = Totals::new(NONE);
        assert_eq!(totals.file(u64::MAX), Ok(()));
        assert_eq!(totals.file(u64::MAX), Ok(()));
        totals.hidden(u64::MAX);
        assert!(!totals.is_too_much(u64::MAX, u64::MAX));
        assert_eq!(totals.finish(), Ok(()));
    }

    #[test]
    fn memory_includes_open_files_in_memory() {
        let mut totals = Totals::new(RequestLimits { memory: Some(100), ..NONE });
        assert!(!totals.is_too_much(60, 40) && totals.is_too_much(60, 41));
        totals.memory_file(41);
        assert!(totals.is_too_much(60, 0), "open, and in no process's memory");
        assert!(!totals.is_too_much(59, 41), "the same bytes are counted once");
    }

    #[test]
    fn hidden_files_count_with_the_largest_possible_size() {
        let totals = |hidden, file_size| {
            let mut totals = Totals::new(RequestLimits { disk: Some(100), file_size, ..NONE });
            totals.file(50).and_then(|()| {
                totals.hidden(hidden);
                totals.finish()
            })
        };
        assert_eq!(totals(0, None), Ok(()));
        assert_eq!(totals(2, Some(25)), Ok(()));
        assert_eq!(totals(3, Some(25)), Err(MeterError::Unreadable));
        assert_eq!(totals(1, None), Err(MeterError::Unreadable), "files of any size");
    }
}
