//! Reasons why nothing is written.

use thiserror::Error;

use crate::plugin::Diagnostic;

/// The input cannot be migrated.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// An input cannot be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        problem: Box<Diagnostic>,
    },
    /// A document is not valid YAML.
    #[error("{file}: document {number}: {reason}")]
    Yaml {
        /// The file.
        file: String,
        /// Number of the document, from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// No container starts argocd-cmp-server.
    #[error(
        "no argocd-cmp-server sidecar in the input: give the repo-server's Deployment, the values \
         of the Helm chart argo-cd, or the ArgoCD resource, and the ConfigMaps of its plugins"
    )]
    NoSidecar,
    /// A kustomization instead of its patch.
    #[error(
        "no argocd-cmp-server sidecar in the input: give the files that the kustomization names, \
         each inline patch as a file of its own, and the ConfigMaps, or --definition for each \
         sidecar"
    )]
    Kustomization,
    /// Values of the chart as a text inside an object.
    #[error(
        "no argocd-cmp-server sidecar in the input: {0} has values of the Helm chart as a text: give \
         the text as a file of its own, and put the result in its place"
    )]
    ValuesAsText(String),
    /// More than one repo-server has sidecars.
    #[error("{first} and {second} both have sidecars: migrate one at a time")]
    Several {
        /// The first one.
        first: String,
        /// The second one.
        second: String,
    },
    /// Another object would undo the change.
    #[error("{host} belongs to {owner}, which would undo the change: give that object instead")]
    Owned {
        /// The repo-server.
        host: String,
        /// Kind and name of the other object.
        owner: String,
    },
    /// The input has a ConfigMap with the name of the new one.
    #[error(
        "the input has a ConfigMap `{0}`, which the result would replace: give the new one \
         another name with --config-map"
    )]
    ConfigMapTaken(String),
    /// `--definition` names no sidecar.
    #[error("--definition: no sidecar is named `{name}`: expected one of {}", known.join(", "))]
    UnknownContainer {
        /// The name.
        name: String,
        /// The names of the sidecars.
        known: Vec<String>,
    },
    /// A sidecar has no image, and others have one.
    #[error(
        "{host}: container `{container}` has no `image`, and the result must name the image that its \
         programs come from: add `image` to it; without one, the operator takes the repo-server's"
    )]
    NoImage {
        /// The repo-server.
        host: String,
        /// The sidecar.
        container: String,
    },
    /// The operator gives init containers no image.
    #[error(
        "{host}: container `{container}` has no `image`, and the operator gives one only to \
         ordinary sidecars: add `image` to it, or use --sidecar ordinary"
    )]
    NoNativeImage {
        /// The repo-server.
        host: String,
        /// The sidecar.
        container: String,
    },
    /// The repo-server has a container with our name.
    #[error("{host} already has a container `{name}`: remove it, or move the plugins by hand")]
    Taken {
        /// The repo-server.
        host: String,
        /// The container.
        name: String,
    },
    /// Definitions are missing or not valid, or two have the same name.
    #[error("{}", .0.join("\nerror: "))]
    Definitions(Vec<String>),
}
