//! `spec.sandbox` and `spec.limits`, which Argo CD skips.

use std::time::Duration;

use cmp_sandbox::{Cache, Network, Tier};

use super::variable::{self, VariablePattern};
use crate::settings::Limit;

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
    /// Directories that requests of the plugin share.
    pub caches: Vec<Cache>,
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
    /// Processor time of each process, in seconds.
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
}

impl Sandbox {
    /// True if commands get the sidecar's variable of this name.
    #[must_use]
    pub fn admits(&self, name: &[u8]) -> bool {
        variable::admits(self.variables.as_deref(), name)
    }
}
