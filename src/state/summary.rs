//! The state as JSON: `/plugins` writes it, `status` reads it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Kept, State};
use crate::metrics::{PluginState, Reload};

/// The state of a supervisor, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether requests are welcome.
    pub ready: bool,
    /// The result of the last look at the definitions.
    pub result: Reload,
    /// Counts sets of definitions since the start.
    pub generation: u64,
    /// When everything was valid last; RFC 3339.
    pub last_success: Option<String>,
    /// Whether the kernel reports changes at once.
    pub watching: bool,
    /// The reason why all definitions stay as they were, if they do.
    pub kept: Option<Kept>,
    /// Mounts that never change, and what to do about them.
    pub static_mounts: Vec<String>,
    /// By name; those that have none come last, by file.
    pub plugins: Vec<Plugin>,
}

/// One plugin: whether it is served, from which source, and why not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// The name that Applications use; `None` if no definition of it was ever valid.
    pub name: Option<String>,
    /// File name of its socket.
    pub socket: Option<String>,
    /// Whether it is served.
    pub state: PluginState,
    /// The file of its definition.
    pub file: Option<String>,
    /// The set of definitions that it came with.
    pub generation: Option<u64>,
    /// When its definition was read; RFC 3339.
    pub loaded_at: Option<String>,
    /// Tells definitions apart.
    pub hash: Option<String>,
    /// Everything that is wrong with it.
    pub problems: Vec<String>,
}

impl From<&State> for Summary {
    fn from(state: &State) -> Self {
        Self {
            ready: state.ready,
            result: state.result,
            generation: state.generation,
            last_success: state.good_since.map(rfc3339),
            watching: state.watching,
            kept: state.kept.clone(),
            static_mounts: state.static_mounts.clone(),
            plugins: state.plugins(),
        }
    }
}

/// UTC, to the second.
pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
