//! Limits that apply to a request as a whole.

use prost::Message;

/// The limit that all processes and files of a request together exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Memory.
    Memory,
    /// Disk space in bytes.
    Disk,
    /// Number of files and directories.
    Files,
    /// Number of processes and threads.
    Processes,
    /// Memory of all requests together; this request used the most.
    TotalMemory,
    /// Processes of all requests together; this request had the most.
    TotalProcesses,
    /// Disk space of all requests together; this request used the most.
    TotalDisk,
    /// Unknown: the usage could not be measured several times in a row.
    Unmeasured,
}

/// Report that a request exceeded a limit.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LimitExceeded {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    #[prost(enumeration = "ExceededLimitName", tag = "2")]
    pub(crate) what: i32,
    /// The limit of all requests together, and the part of this one.
    #[prost(uint64, optional, tag = "3")]
    pub(crate) limit: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) used: Option<u64>,
}

/// Encoded form of [`ExceededLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum ExceededLimitName {
    Unmeasured = 0,
    Memory = 1,
    Disk = 2,
    Files = 3,
    TotalMemory = 4,
    TotalProcesses = 5,
    Processes = 6,
    TotalDisk = 7,
}

impl From<ExceededLimit> for ExceededLimitName {
    fn from(excess: ExceededLimit) -> Self {
        match excess {
            ExceededLimit::Unmeasured => Self::Unmeasured,
            ExceededLimit::Memory => Self::Memory,
            ExceededLimit::Disk => Self::Disk,
            ExceededLimit::Files => Self::Files,
            ExceededLimit::Processes => Self::Processes,
            ExceededLimit::TotalMemory => Self::TotalMemory,
            ExceededLimit::TotalProcesses => Self::TotalProcesses,
            ExceededLimit::TotalDisk => Self::TotalDisk,
        }
    }
}

impl From<ExceededLimitName> for ExceededLimit {
    fn from(name: ExceededLimitName) -> Self {
        match name {
            ExceededLimitName::Unmeasured => Self::Unmeasured,
            ExceededLimitName::Memory => Self::Memory,
            ExceededLimitName::Disk => Self::Disk,
            ExceededLimitName::Files => Self::Files,
            ExceededLimitName::Processes => Self::Processes,
            ExceededLimitName::TotalMemory => Self::TotalMemory,
            ExceededLimitName::TotalProcesses => Self::TotalProcesses,
            ExceededLimitName::TotalDisk => Self::TotalDisk,
        }
    }
}
