//! A command's output, as manifests.

use thiserror::Error;

use crate::yaml;

/// Manifests as JSON texts, in the order they were printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests(Vec<Vec<u8>>);

/// The output is not what Kubernetes could read. Argo CD's text.
#[derive(Debug, Error)]
#[error("failed to unmarshal manifest: {0}")]
pub struct InvalidOutput(yaml::Error);

impl Manifests {
    /// Splits output into documents.
    pub fn parse(output: &[u8]) -> Result<Self, InvalidOutput> {
        yaml::stream::manifests(output).map(Self).map_err(InvalidOutput)
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
    pub fn into_inner(self) -> Vec<Vec<u8>> {
        self.0
    }
}
