//! A command's output, as manifests.

use bytes::Bytes;
use thiserror::Error;

use crate::yaml::{
    DEFAULT_MAX_OUTPUT_BYTES,
    stream::{self, manifests},
};

/// Manifests as JSON texts, in the order they were printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests(Vec<Bytes>);

/// The output is not what Kubernetes could read. Argo CD's text.
#[derive(Debug, Error)]
#[error("failed to unmarshal manifest: {0}")]
pub struct InvalidOutput(#[source] stream::Error);

impl Manifests {
    /// Splits output into documents.
    pub fn parse(output: Vec<u8>) -> Result<Self, InvalidOutput> {
        let output = Bytes::from(output);
        manifests(&output, DEFAULT_MAX_OUTPUT_BYTES).map(Self).map_err(InvalidOutput)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts.
    #[must_use]
    pub fn into_inner(self) -> Vec<Bytes> {
        self.0
    }
}
