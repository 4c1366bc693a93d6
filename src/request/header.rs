//! The header of a request.

use std::borrow::Cow;

use bytes::Bytes;

/// A checksum as a client states it: SHA-256 in lower-case hexadecimal digits.
pub(super) type Checksum = [u8; 64];

/// The client's description of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// Last component of the application's directory.
    pub application: String,
    /// The application's directory, relative to the repository. Not trustworthy.
    pub directory: Bytes,
    /// SHA-256 of the compressed archive in lower-case hex.
    pub checksum: Bytes,
    /// Length of the compressed archive in bytes, as the client states it.
    pub size: u64,
    /// `NAME=VALUE`, in order.
    pub environment: Vec<Bytes>,
}

impl RequestHeader {
    /// Argo CD's name of the application; without it, its directory's name.
    #[must_use]
    pub fn application_name(&self) -> Cow<'_, str> {
        let value =
            self.environment.iter().find_map(|entry| entry.strip_prefix(b"ARGOCD_APP_NAME="));
        value.map_or(Cow::Borrowed(&self.application), String::from_utf8_lossy)
    }
}
