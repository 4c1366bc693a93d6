//! Arguments of `migrate`.

#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cmp_sandbox::Tier;

/// Longest name of a ConfigMap, in bytes.
const MAX_NAME: usize = 253;

/// Replace the argocd-cmp-server sidecars of a repo-server with one cmp-supervisor.
///
/// Reads manifests and writes new ones to standard output. The report of everything that
/// changes goes to standard error. Nothing in a cluster is changed.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Input is a repo-server with sidecars and their ConfigMaps, in any order and any number of files:
  - a Deployment, a Pod, a kustomize patch (also a JSON patch), or a List that kubectl printed
  - values of the Helm chart argo-cd, alone or below a parent chart's key
  - an ArgoCD resource of argocd-operator or OpenShift GitOps
Input without `kind` is read as chart values. The result has the same form.

Exit codes: 0 written, 1 something is missing or not valid, 2 usage. Further ones of --check: 1 the
results differ, 4 no plugin claims the application, 5 a plugin fails, 6 a plugin takes too long, 7
the isolation is not available.

Examples:
  kubectl get deployments,configmaps -n argocd -o yaml | cmp-supervisor migrate > new.yaml
  cmp-supervisor migrate values.yaml > cmp-supervisor-values.yaml
  cmp-supervisor migrate repo-server-patch.yaml plugins/*.yaml --profile restricted
  cmp-supervisor migrate values.yaml --check apps/shop > cmp-supervisor-values.yaml")]
pub struct Migrate {
    /// Files with manifests or chart values, directories of such files, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub paths: Vec<PathBuf>,
    /// Definition of a sidecar that has it in its image, as CONTAINER=FILE
    #[arg(long = "definition", value_name = "CONTAINER=FILE", value_parser = definition)]
    pub definitions: Vec<(String, PathBuf)>,
    /// Image of cmp-supervisor, which an init container installs
    #[arg(long, value_name = "IMAGE", default_value = "cmp-supervisor", value_parser = image)]
    pub image: String,
    /// Rights of the sidecar [default: restricted for an ArgoCD resource, uid for others]
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// Kind of the container [default: ordinary for an ArgoCD resource, native for others]
    #[arg(long, value_enum)]
    pub sidecar: Option<SidecarKind>,
    /// Source of the programs of sidecars with other images
    #[arg(long, value_enum, default_value = "init-container")]
    pub tools: ToolSource,
    /// Name of the ConfigMap with all definitions
    #[arg(long, value_name = "NAME", default_value = "argocd-cmp-plugins", value_parser = object)]
    pub config_map: String,
    /// Comparison of results.
    #[command(flatten)]
    pub check: Comparison,
}

/// An application to render before and after the migration.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Compare results")]
pub struct Comparison {
    /// Render this application with argocd-cmp-server and with cmp-supervisor, and show the difference
    #[arg(long = "check", value_name = "APP_DIR")]
    pub application: Option<PathBuf>,
    /// Plugin to render it with [default: all that claim it]
    #[arg(long = "check-plugin", value_name = "NAME", requires = "application")]
    pub plugin: Option<String>,
    /// Program of argocd-cmp-server [default: argocd-cmp-server in PATH]
    #[arg(long = "check-server", value_name = "FILE", requires = "application")]
    pub server: Option<PathBuf>,
}

/// Rights of the sidecar, by the components in deploy/kustomize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Root with three capabilities: a UID for each request.
    Uid,
    /// No root and no capability; Linux 6.12 or newer.
    Restricted,
    /// Root with SYS_ADMIN: a UID and namespaces for each request.
    Namespaces,
}

impl Profile {
    /// The isolation of requests.
    pub(crate) fn tier(self) -> Tier {
        match self {
            Self::Uid => Tier::Uid,
            Self::Restricted => Tier::Landlock,
            Self::Namespaces => Tier::Namespaces,
        }
    }
}

/// Kind of a sidecar's container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SidecarKind {
    /// An init container that keeps running: Kubernetes 1.29 or newer.
    Native,
    /// A container beside the repo-server.
    Ordinary,
}

/// Source of programs that are not in the sidecar's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToolSource {
    /// An init container copies the programs that the definition names.
    InitContainer,
    /// The image is mounted: Kubernetes 1.35 or newer.
    ImageVolume,
}

fn definition(text: &str) -> Result<(String, PathBuf), String> {
    let (container, file) = text.split_once('=').ok_or("expected CONTAINER=FILE")?;
    Ok((container.to_owned(), file.into()))
}

fn image(text: &str) -> Result<String, &'static str> {
    let is_image = !text.is_empty() && !text.contains(char::is_whitespace);
    is_image.then(|| text.to_owned()).ok_or("expected an image, for example registry/name:tag")
}

/// A name that Kubernetes accepts for a ConfigMap.
fn object(text: &str) -> Result<String, &'static str> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_inner)
            && part.ends_with(is_inner)
            && part.chars().all(|c| is_inner(c) || c == '-')
    };
    let is_name = text.len() <= MAX_NAME && text.split('.').all(is_part);
    is_name.then(|| text.to_owned()).ok_or("expected small letters, digits, - and .")
}
