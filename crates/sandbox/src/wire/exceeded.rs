//! What a request took too much of.

use std::fmt;

/// What all processes and files of a request took too much of together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Memory.
    Memory,
    /// Bytes on disk.
    Disk,
    /// Files and directories.
    Files,
    /// Nobody knows: it could not be measured, look after look.
    Unmeasured,
}

impl ExceededLimit {
    /// What was the matter, in words; `limit` is that of the excess.
    #[must_use]
    pub fn words(self, limit: u64) -> impl fmt::Display {
        fmt::from_fn(move |text| match self {
            Self::Memory => write!(text, "its processes took more than {limit} bytes of memory"),
            Self::Disk => write!(text, "its files took more than {limit} bytes of disk"),
            Self::Files => write!(text, "it had more than {limit} files and directories"),
            Self::Unmeasured => text.write_str(
                "what it took of memory and disk could not be measured: it hides processes or \
                 files, has too many open, or moves directories all the time",
            ),
        })
    }
}
