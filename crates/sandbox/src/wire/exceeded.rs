//! Limits that apply to a request as a whole.

/// The limit that all processes and files of a request together exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Memory.
    Memory,
    /// Disk space in bytes.
    Disk,
    /// Number of files and directories.
    Files,
    /// Memory of all requests together; this request used the most.
    TotalMemory,
    /// Processes of all requests together; this request had the most.
    TotalProcesses,
    /// Unknown: the usage could not be measured several times in a row.
    Unmeasured,
}
