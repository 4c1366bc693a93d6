//! `spec.sandbox`, `spec.workspace` and `spec.limits`, which Argo CD skips.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use cmp_sandbox::{Cache, Network, Tier};

use super::variable::{self, VariablePattern};
use crate::settings::Limit;

/// Directories of tokens, also by a usual link. A plugin may read a path below them, but
/// neither all of it nor a directory above.
pub(crate) const TOKENS: [&str; 2] = ["/var/run/secrets", "/run/secrets"];

/// `spec.sandbox`. A key that is left out takes the value of the matching flag
/// of `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Weakest isolation that the plugin accepts; with a weaker one, it is not
    /// served.
    pub minimum_isolation: Option<Tier>,
    /// Variables of the sidecar that commands get; `None` for all.
    pub variables: Option<Vec<VariablePattern>>,
    /// TCP ports that commands can connect to.
    pub network: Option<Network>,
    /// More absolute paths that commands can read.
    pub read: Vec<String>,
    /// Secrets of the container, if no other plugin is defined. A definition cannot
    /// set them.
    pub secrets: Vec<PathBuf>,
    /// Directories that requests of the plugin share.
    pub caches: Vec<Cache>,
}

/// `spec.workspace`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Patterns of the files to unpack, as in [`cmp_archive::PathPattern`]; none for
    /// all.
    pub include: Vec<String>,
    /// Commands change nothing in the repository, so that requests may share it.
    pub read_only: bool,
}

/// `spec.limits`. A key that is left out takes the value of the matching flag
/// of `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Longest duration of a request, if Argo CD's deadline is later.
    pub timeout: Option<Duration>,
    /// Memory in bytes, of each process and of the whole request.
    pub memory: Option<Limit>,
    /// Concurrent processes and threads of a request.
    pub processes: Option<Limit>,
    /// CPU time of each process, in seconds.
    pub cpu: Option<Limit>,
    /// Size of each file, in bytes.
    pub file_size: Option<Limit>,
    /// Size of all files of a request together, in bytes.
    pub disk: Option<Limit>,
    /// Files and directories of a request.
    pub files: Option<Limit>,
    /// Size of a command's standard output, in bytes.
    pub output: Option<u64>,
    /// Concurrent requests of the plugin.
    pub requests: Option<u32>,
    /// Fewer manifests are an error. With automated pruning, an empty answer
    /// deletes the application's resources.
    pub minimum_manifests: usize,
    /// Manifests that are still encrypted are an error.
    pub refuse_encrypted: bool,
}

impl Sandbox {
    /// Index and path of each token of the Pod among the readable paths.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_token = |path: &str| TOKENS.iter().any(|tokens| Path::new(path).starts_with(tokens));
        let read = self.read.iter().map(String::as_str).enumerate();
        read.filter(move |(_, path)| is_token(path))
    }

    /// True if commands get the sidecar's variable of this name.
    #[must_use]
    pub fn admits(&self, name: &[u8]) -> bool {
        variable::admits(self.variables.as_deref(), name)
    }
}
