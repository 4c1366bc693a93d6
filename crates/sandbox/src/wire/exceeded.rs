//! What a request took too much of.

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
