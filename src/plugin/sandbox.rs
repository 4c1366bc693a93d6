//! What a definition says of confinement: keys of our own, which Argo CD skips.

use std::time::Duration;

use cmp_sandbox::{Cache, Network, Tier};

use super::variable::{self, VariablePattern};
use crate::settings::Limit;

/// `spec.sandbox`. What is absent is as the operator of the sidecar has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// The plugin is not served with less.
    pub minimum_isolation: Option<Tier>,
    /// Variables of the sidecar that commands see; `None` for all.
    pub variables: Option<Vec<VariablePattern>>,
    /// Ports to connect to.
    pub network: Option<Network>,
    /// Further paths to read.
    pub read: Vec<String>,
    /// Directories to keep between requests.
    pub caches: Vec<Cache>,
}

/// `spec.limits`. What is absent is as the operator of the sidecar has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of a request, if that is less than the caller grants.
    pub timeout: Option<Duration>,
    /// Bytes of memory of each process, and of all together.
    pub memory: Option<Limit>,
    /// Processes at a time.
    pub processes: Option<Limit>,
    /// Seconds of processor time of each process.
    pub cpu: Option<Limit>,
    /// Bytes of each file.
    pub file_size: Option<Limit>,
    /// Bytes of all files together.
    pub disk: Option<Limit>,
    /// Files and directories.
    pub files: Option<Limit>,
    /// Bytes of standard output.
    pub output: Option<u64>,
    /// Requests at a time.
    pub requests: Option<u32>,
    /// Fewer manifests are an error: with automated pruning, none delete the
    /// application.
    pub minimum_manifests: usize,
}

impl Sandbox {
    /// Whether commands see the sidecar's variable of this name.
    #[must_use]
    pub fn admits(&self, name: &[u8]) -> bool {
        variable::admits(self.variables.as_deref(), name)
    }
}
