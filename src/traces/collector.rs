//! The collector of traces.

use std::fmt;

/// A collector of traces.
#[derive(Clone, PartialEq)]
pub struct Collector {
    /// Host and port.
    pub address: String,
    /// True if the connection must be encrypted.
    pub needs_tls: bool,
    /// Names and values of headers. Values may be secret.
    pub headers: Vec<(String, String)>,
    /// Names and values of attributes of all traces.
    pub attributes: Vec<(String, String)>,
    /// The part of the traces to send, unless the client decides.
    pub ratio: f64,
    /// Settings that cannot be read.
    pub warnings: Vec<String>,
}

/// Without the values of headers.
impl fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Collector").field("address", &self.address).finish_non_exhaustive()
    }
}
