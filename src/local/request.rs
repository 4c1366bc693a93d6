//! The request to send.

use std::fs::File;

use crate::grpc::Parcel;

/// A request that can be sent several times.
#[derive(Debug)]
pub(super) struct Request {
    /// Name of the plugin; `None` to ask all.
    pub(super) plugin: Option<String>,
    pub(super) parcel: Parcel,
    /// The packed repository, held until the answer has come.
    pub(super) _file: File,
}
