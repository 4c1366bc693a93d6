//! Records which plugins are served, and the reasons for those that are not.
//!
//! The loader writes which plugins are defined, and the supervisor writes which
//! of them are served. Readiness, metrics, `/plugins` and `status` only read.

mod check;
mod gauges;
mod origin;
mod summary;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use self::summary::rfc3339;
pub use self::{
    check::{Check, Component, Condition, print, report},
    gauges::measure,
    origin::{Digest, Origin},
    summary::{Plugin, PluginQueue, Summary},
};
use crate::{
    budget::Budget,
    hidden::HiddenPath,
    metrics::{Configured, PluginState, Reload},
    plugin::{Catalog, PluginName, Problem},
};

/// The state of a supervisor and its plugins at one moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// True once every initial plugin has been tried and one is served.
    pub started: bool,
    /// True once the supervisor has been told to stop.
    pub stopping: bool,
    /// The conditions of parts other than plugins; set with [`report`].
    pub conditions: BTreeMap<Component, Condition>,
    /// Messages about mounts whose content never changes, with a remedy.
    pub static_mounts: Vec<String>,
    /// The share of the container that requests may use; `None` until it is known.
    pub budget: Option<Budget>,
    /// The plugins that should be served; set by the loader.
    pub desired: Catalog,
    /// The source of each plugin that should be served; set by the loader.
    pub origins: BTreeMap<PluginName, Origin>,
    /// All problems of definitions; set by the loader.
    pub problems: Vec<Problem>,
    /// The reasons why requests of plugins fail although they have a socket; set by
    /// the loader.
    pub unusable: BTreeMap<PluginName, Vec<String>>,
    /// Paths that plugins may miss; set by the loader.
    pub hidden: Vec<HiddenPath>,
    /// The result of the last read of the definitions.
    pub result: Reload,
    /// Number of changes of the set of definitions since the start; the first set
    /// is 1.
    pub generation: u64,
    /// Digest of the texts of the desired definitions; equal on all machines that serve the
    /// same ones.
    pub digest: Digest,
    /// Last time when all definitions were readable and valid; `None` if never.
    pub good_since: Option<SystemTime>,
    /// Set while the last definitions stay in use although the files differ.
    pub kept: Option<Kept>,
    /// True if the kernel reports changes of the directory.
    pub watching: bool,
    /// The plugins that the supervisor tried to serve last; `None` before the
    /// first time.
    pub tried: Option<Catalog>,
    /// The plugins that have a socket; set by the supervisor.
    pub served: Catalog,
    /// The reasons why plugins have no socket; set by the supervisor.
    pub failed: BTreeMap<PluginName, String>,
}

/// The reason why the last definitions stay in use although the files differ.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The reason.
    pub reason: String,
    /// Seconds from the last read until the definitions are removed; `None` if
    /// they stay until the cause is fixed.
    pub seconds_left: Option<u64>,
}

impl Kept {
    /// No definition is valid any more. `problems` are those of the ones that were read.
    pub(crate) fn emptied(left: Duration, problems: &[Problem]) -> Self {
        let reason = match problems {
            [] => "every definition was removed at once",
            [..] => "every valid definition was removed at once",
        };
        Self { reason: reason.to_owned(), seconds_left: Some(left.as_secs()) }
    }
}

impl State {
    /// True if all definitions are readable and valid.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.result, Reload::Applied | Reload::Unchanged)
    }

    /// True if the supervisor has tried to serve all plugins that are defined now.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.tried.as_ref() == Some(&self.desired)
    }

    /// True if the supervisor has tried to serve the plugins, and serves at least
    /// one or none is defined. One plugin whose socket cannot be created must not
    /// make the others unavailable.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        self.tried.as_ref().is_some_and(|tried| tried.is_empty() || !self.served.is_empty())
    }

    /// True if plugins were tried and none of them is served.
    fn serves_none(&self) -> bool {
        self.tried.as_ref().is_some_and(|tried| !tried.is_empty()) && self.served.is_empty()
    }

    /// True if the supervisor is ready for requests.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness().iter().all(|check| check.ok)
    }

    /// The checks of readiness.
    #[must_use]
    pub fn readiness(&self) -> Vec<Check> {
        check::readiness(self)
    }

    /// The checks of liveness, whose failure only a restart can repair.
    #[must_use]
    pub fn liveness(&self) -> Vec<Check> {
        check::liveness(self)
    }

    /// The metrics of the last read.
    pub(crate) fn configured(&self) -> Configured {
        Configured {
            generation: self.generation,
            hash: self.digest.number(),
            diagnostics: self.problems.len(),
            good_since: self.good_since,
            emptied: self.kept.as_ref().is_some_and(|kept| kept.seconds_left.is_some()),
            is_good: self.is_good(),
        }
    }

    /// All plugins: first those that should be served, by name; then definitions
    /// that were never valid, by file.
    #[must_use]
    pub fn plugins(&self) -> Vec<Plugin> {
        let named = self.desired.iter().map(|plugin| self.plugin(&plugin.name));
        let is_orphan = |problem: &&Problem| !self.origins.values().any(|o| o.is_in(problem));
        let mut orphans = BTreeMap::<_, Vec<_>>::new();
        for problem in self.problems.iter().filter(is_orphan) {
            orphans.entry((&problem.file, &problem.place)).or_default().push(problem.text());
        }
        let unnamed = orphans.into_iter().map(|((file, _), problems)| Plugin {
            state: PluginState::Invalid,
            file: Some(file.clone()),
            problems,
            ..Plugin::default()
        });
        named.chain(unnamed).collect()
    }

    fn plugin(&self, name: &PluginName) -> Plugin {
        let origin = self.origins.get(name);
        let is_about = |problem: &&Problem| origin.is_some_and(|origin| origin.is_in(problem));
        let problems: Vec<_> = self.problems.iter().filter(is_about).collect();
        let (failure, unusable) = (self.failed.get(name), self.unusable.get(name));
        let state = match (self.served.get(name), failure) {
            (Some(_), _) if unusable.is_some() => PluginState::Unusable,
            (Some(_), _) if problems.iter().any(|problem| problem.stale) => PluginState::Stale,
            (Some(_), _) => PluginState::Serving,
            (None, Some(_)) => PluginState::Failed,
            (None, None) => PluginState::Starting,
        };
        Plugin {
            name: Some(name.to_string()),
            socket: Some(name.socket_file()),
            state,
            file: origin.map(|origin| origin.file.clone()),
            generation: origin.map(|origin| origin.generation),
            loaded_at: origin.map(|origin| rfc3339(origin.loaded_at)),
            hash: origin.map(|origin| origin.digest.short()),
            queue: None,
            problems: problems
                .into_iter()
                .map(Problem::text)
                .chain(failure.cloned())
                .chain(unusable.into_iter().flatten().cloned())
                .collect(),
        }
    }
}
