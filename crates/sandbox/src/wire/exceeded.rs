//! Limits that apply to a request as a whole.

use prost::Message;

/// The limit that all processes and files of a request together exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub enum ExceededLimit {
    /// Unknown: the usage could not be measured several times in a row.
    Unmeasured = 0,
    /// Memory.
    Memory = 1,
    /// Disk space in bytes.
    Disk = 2,
    /// Number of files and directories.
    Files = 3,
    /// Memory of all requests together; this request used the most.
    TotalMemory = 4,
    /// Processes of all requests together; this request had the most.
    TotalProcesses = 5,
    /// Number of processes and threads.
    Processes = 6,
    /// Disk space of all requests together; this request used the most.
    TotalDisk = 7,
    /// Local ports of all requests together; this request had the most.
    TotalPorts = 8,
    /// Memory of the container, while all requests together had no more than is for them when
    /// last measured; this request used the most.
    Container = 9,
    /// Descriptors that instances of epoll watch, where all requests have one UID.
    Watches = 10,
    /// Unknown: files without a name, which no process has open, could exceed the limit of
    /// memory or disk, at the size that each file may have.
    HiddenFiles = 11,
}

/// Report that a request exceeded a limit.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LimitExceeded {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    #[prost(enumeration = "ExceededLimit", tag = "2")]
    pub(crate) what: i32,
    /// The limit of all requests together, and the part of this one.
    #[prost(uint64, optional, tag = "3")]
    pub(crate) limit: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) used: Option<u64>,
}
