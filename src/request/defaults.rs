//! The supervisor's settings for the commands of all plugins.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cmp_sandbox::{Bounds, Redactor, Tier};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{git_credentials::CredentialHelper, hint::Reach};
use crate::{
    budget::Budget,
    container::OomCounter,
    volume::{FileThread, WorkVolume},
};

/// The supervisor's settings for all commands.
#[derive(Clone, Debug)]
pub struct CommandDefaults {
    /// Variables that plugins may see, as `NAME=VALUE`.
    pub inherited: Vec<Bytes>,
    /// The search path for programs.
    pub search: Bytes,
    /// Longest standard output of a command in bytes.
    pub max_output: usize,
    /// Masks the secret variables in texts.
    pub redactor: Redactor,
    /// Longest duration of a command of a plugin without a timeout; `None` for
    /// no limit.
    pub timeout: Option<Duration>,
    /// Default limits, paths and network of commands.
    pub bounds: Bounds,
    /// The isolation of requests.
    pub tier: Tier,
    /// Paths and ports that the sandbox lets commands reach.
    pub reach: Arc<Reach>,
    /// Looks at the paths that commands name in errors.
    pub(crate) named: FileThread,
    /// The volume that errors about a lack of space mean.
    pub volume: WorkVolume,
    /// Owns the running calls, and the work that outlives their answers.
    pub calls: TaskTracker,
    /// Answers git's questions for credentials.
    pub helper: CredentialHelper,
    /// Shares of all requests together, whose origins errors name.
    pub budget: watch::Receiver<Budget>,
    /// Processes that the kernel has killed for lack of memory.
    pub oom: OomCounter,
}
