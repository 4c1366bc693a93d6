//! The state as JSON, which `/plugins` writes and `status` reads.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Check, Kept, State};
use crate::{
    budget::Budget,
    hidden::HiddenPath,
    metrics::{Metrics, PluginState, Queue, Reload},
    timestamp::displayable,
};

/// The state of a supervisor, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// True if the supervisor is ready for requests.
    pub ready: bool,
    /// The checks behind `ready`.
    pub checks: Vec<Check>,
    /// The result of the last read of the definitions.
    pub result: Reload,
    /// Number of changes of the set of definitions since the start.
    pub generation: u64,
    /// Last time when all definitions were readable and valid; RFC 3339.
    pub last_success: Option<String>,
    /// True if the kernel reports changes of the directory.
    pub watching: bool,
    /// Set while the last definitions stay in use although the files differ.
    pub kept: Option<Kept>,
    /// Messages about mounts whose content never changes, with a remedy.
    pub static_mounts: Vec<String>,
    /// The share of the container that requests may use, and the origin of each
    /// number; `None` until the container's limits are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Paths that plugins may miss, each with the line that opens it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<HiddenPath>,
    /// Plugins by name, then definitions without a valid name, by file.
    pub plugins: Vec<Plugin>,
}

/// One plugin, with its source and its problems.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// The name that Applications use; `None` if no definition of it was ever valid.
    pub name: Option<String>,
    /// File name of its socket.
    pub socket: Option<String>,
    /// Its state.
    pub state: PluginState,
    /// The file of its definition.
    pub file: Option<String>,
    /// The generation in which its definition last changed.
    pub generation: Option<u64>,
    /// Time when its definition was read; RFC 3339.
    pub loaded_at: Option<String>,
    /// First digits of the digest of its file.
    pub hash: Option<String>,
    /// Its requests that wait for a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<PluginQueue>,
    /// All its problems.
    pub problems: Vec<String>,
}

/// The requests of a plugin that wait for a place.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginQueue {
    /// Number of requests.
    pub waiting: usize,
    /// Time for which the first of them has waited.
    pub longest_seconds: u64,
    /// The limit or the component that they wait for, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

impl From<&State> for Summary {
    fn from(state: &State) -> Self {
        let checks = state.readiness();
        Self {
            ready: checks.iter().all(|check| check.ok),
            checks,
            result: state.result,
            generation: state.generation,
            last_success: state.good_since.map(rfc3339),
            watching: state.watching,
            kept: state.kept.clone(),
            static_mounts: state.static_mounts.clone(),
            budget: state.budget.clone(),
            hidden: state.hidden.clone(),
            plugins: state.plugins(),
        }
    }
}

impl Summary {
    /// Adds the requests that wait now, and the `obstacle` of those of a plugin.
    #[must_use]
    pub fn with_queues(
        mut self,
        metrics: &Metrics,
        obstacle: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let strained = self.checks.iter().find(|check| check.strained);
        let strained = strained.map(|Check { name, detail, .. }| format!("{name}: {detail}"));
        for plugin in &mut self.plugins {
            let Some(name) = plugin.name.as_deref() else { continue };
            plugin.queue = metrics.queue(name).map(|Queue { waiting, longest }| PluginQueue {
                waiting,
                longest_seconds: longest.as_secs(),
                obstacle: obstacle(name).or_else(|| strained.clone()),
            });
        }
        self
    }
}

/// A time in UTC, with seconds.
pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(displayable(time)).to_string()
}
