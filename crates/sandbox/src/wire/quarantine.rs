//! The report that a lease cannot be ended yet.

use prost::Message;

/// Processes or files of a lease that could not be removed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quarantined {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// UID of its tenant; `None` in tiers without separate UIDs.
    #[prost(uint32, optional, tag = "2")]
    pub(crate) uid: Option<u32>,
    /// Some of the processes that survived SIGKILL.
    #[prost(uint32, repeated, tag = "3")]
    pub(crate) processes: Vec<u32>,
    /// First error of the removal of files; 0 if processes are left.
    #[prost(int32, tag = "4")]
    pub(crate) errno: i32,
    /// Name of the workspace.
    #[prost(string, tag = "5")]
    pub(crate) workspace: String,
}
