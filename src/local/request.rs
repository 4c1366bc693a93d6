//! The request to send.

use tempfile::NamedTempFile;

use crate::grpc::Parcel;

/// A request that can be sent several times.
#[derive(Debug)]
pub(super) struct Request {
    /// Name of the plugin; `None` to ask all.
    pub(super) plugin: Option<String>,
    pub(super) parcel: Parcel,
    /// The packed repository.
    #[expect(dead_code, reason = "held, not used")]
    pub(super) file: NamedTempFile,
}
