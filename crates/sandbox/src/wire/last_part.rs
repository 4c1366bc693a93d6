//! The last part of a volume in memory, which one request at a time uses.

use prost::Message;

/// Limits of free space for a request that unpacks an archive, and of its wait.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LastPart {
    /// Bytes of memory that all files may take.
    #[prost(uint64, tag = "1")]
    pub memory: u64,
    /// With less free bytes, only the request that has the turn goes on.
    #[prost(uint64, tag = "2")]
    pub mark: u64,
    /// With less free bytes, that request fails too.
    #[prost(uint64, tag = "3")]
    pub least: u64,
    /// Longest wait for the turn in milliseconds.
    #[prost(uint64, tag = "4")]
    pub wait_ms: u64,
    /// Time until the request has to end in milliseconds; `None` if it need not.
    #[prost(uint64, optional, tag = "5")]
    pub left_ms: Option<u64>,
}
