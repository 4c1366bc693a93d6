//! Flags for the fields of an Argo CD Application that a plugin sees.

#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::path::PathBuf;

use clap::Args;

use super::{
    kube_version::kube_version,
    parameter::{Parameter, pair, parameter},
};

/// Fields of an Argo CD Application. A flag wins over the file.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Fields of the Application")]
pub struct Fields {
    /// Argo CD Application to take these fields, the plugin and the directory from; - for standard input. Of a source hydrator, the dry source is rendered
    #[arg(short = 'f', long = "application", value_name = "FILE")]
    pub application: Option<PathBuf>,
    /// The source of the Application to render, from 1 [default: the one with a plugin]
    #[arg(long, value_name = "N", requires = "application")]
    pub source_position: Option<usize>,
    /// Namespace of Argo CD; the name of an Application elsewhere has its namespace in front [default: argocd]
    #[arg(long, value_name = "NAMESPACE", requires = "application")]
    pub argocd_namespace: Option<String>,
    /// Name of the Application [default: name of its directory]
    #[arg(long)]
    pub name: Option<String>,
    /// Namespace of its destination [default: default]
    #[arg(long)]
    pub namespace: Option<String>,
    /// Its project [default: default]
    #[arg(long)]
    pub project: Option<String>,
    /// Commit that is rendered
    #[arg(long, value_name = "SHA")]
    pub revision: Option<String>,
    /// Branch, tag or commit in spec.source.targetRevision
    #[arg(long, value_name = "REVISION")]
    pub target_revision: Option<String>,
    /// URL of its repository
    #[arg(long, value_name = "URL")]
    pub repo_url: Option<String>,
    /// Version of the cluster, for example 1.34; as in Argo CD, the plugin sees only its numbers
    #[arg(long, value_name = "VERSION", value_parser = kube_version)]
    pub kube_version: Option<String>,
    /// API versions of the cluster, separated by commas
    #[arg(long, value_name = "VERSIONS")]
    pub api_versions: Option<String>,
    /// An item of spec.source.plugin.env; the plugin sees it as ARGOCD_ENV_NAME
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// An item of spec.source.plugin.parameters; `NAME[]=VALUE` for lists, `NAME[KEY]=VALUE` for maps
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub param: Vec<Parameter>,
}
