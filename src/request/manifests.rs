//! Parses a command's output into manifests.

use std::borrow::Cow;

use bytes::Bytes;
use cmp_yaml::{
    Cause,
    portable::portable,
    stream::{self, stdout_manifests},
};
use thiserror::Error;

use crate::plural::plural;

/// Manifests as JSON texts, in the order of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests(Vec<Bytes>);

/// Reasons why output is not a list of manifests.
#[derive(Debug, Error)]
pub enum InvalidOutput {
    /// Kubernetes could not read it. The text is Argo CD's, with the position.
    #[error(
        "failed to unmarshal manifest: {0}: document {document}, line {line} of the output: {excerpt}",
        document = .0.document(), line = .0.line(), excerpt = .0.excerpt()
    )]
    Unreadable(#[source] stream::Error),
    /// It is larger than one message may be.
    #[error(
        "the plugin produced more manifests than the {} MiB that one answer holds: raise \
         ARGOCD_GRPC_MAX_SIZE_MB on the sidecar and on the repo-server", limit >> 20
    )]
    Large {
        /// The limit in bytes.
        limit: usize,
    },
    /// It has fewer manifests than the plugin's definition demands.
    #[error(
        "the plugin printed {}, and its spec.limits.minimumManifests demands at least \
         {wanted}: with automated pruning, Argo CD would delete the missing resources",
        plural(*got, "manifest")
    )]
    Few {
        /// Manifests that were printed.
        got: usize,
        /// The smallest number that is accepted.
        wanted: usize,
    },
}

impl Manifests {
    /// Splits output into documents. Each is written so that the repo-server's
    /// JSON parser reads the same values.
    ///
    /// The manifests together may have `limit` bytes.
    pub fn parse(output: Vec<u8>, limit: usize) -> Result<Self, InvalidOutput> {
        let output = Bytes::from(output);
        let spelled = |manifest: Bytes| match portable(&manifest) {
            Cow::Borrowed(_) => manifest,
            Cow::Owned(other) => other.into(),
        };
        let manifests = stdout_manifests(&output, limit).map_err(|error| {
            let is_large = error.yaml().is_some_and(|yaml| yaml.cause() == Cause::Limit);
            if is_large { InvalidOutput::Large { limit } } else { InvalidOutput::Unreadable(error) }
        })?;
        Ok(Self(manifests.into_iter().map(spelled).collect()))
    }

    /// Returns an error if there are fewer than `wanted`.
    pub fn at_least(self, wanted: usize) -> Result<Self, InvalidOutput> {
        let got = self.len();
        if got < wanted { Err(InvalidOutput::Few { got, wanted }) } else { Ok(self) }
    }

    /// The number of manifests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no manifests.
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn manifests_larger_than_a_message_are_refused() {
        let many = "a: b\n---\n".repeat(LIMIT / 8);
        let error = Manifests::parse(many.into_bytes(), LIMIT).unwrap_err().to_string();
        assert!(error.contains("more manifests than the 1 MiB"), "{error}");
    }

    #[test]
    fn json_that_argo_cd_would_misread_is_rewritten() {
        let manifests = Manifests::parse(b"{\"a\":\"\\/\"}\n".to_vec(), LIMIT).unwrap();
        assert_eq!(manifests.into_inner(), [&b"{\"a\":\"/\"}"[..]]);
    }

    #[test]
    fn an_error_names_its_document_and_line() {
        let error = Manifests::parse(b"a: 1\n---\nb: [\n".to_vec(), LIMIT).unwrap_err().to_string();
        assert!(error.starts_with("failed to unmarshal manifest: "), "{error}");
        assert!(error.ends_with("document 2, line 3 of the output: b: ["), "{error}");
    }

    #[test]
    fn too_few_manifests_are_an_error() {
        let manifests = || Manifests::parse(b"kind: A\n---\nkind: B\n".to_vec(), LIMIT).unwrap();
        assert_eq!(manifests().at_least(2).unwrap().len(), 2);
        let error = manifests().at_least(3).unwrap_err().to_string();
        assert!(error.starts_with("the plugin printed 2 manifests"), "{error}");
        assert!(error.contains("at least 3"), "{error}");
    }
}
