//! All plugins and how they are, put together from those who know.

use std::{collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{
    loader::{Findings, Trouble},
    metrics::PluginState,
    plugin::{Catalog, PluginName},
    supervisor::Standing,
};

/// What a running supervisor says of itself, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Whether requests are welcome.
    pub ready: bool,
    /// How the last look at the definitions ended: applied, partial, rejected
    /// or unchanged.
    pub result: String,
    /// Counts sets of definitions since the start.
    pub generation: u64,
    /// When everything was valid last; RFC 3339.
    pub last_success: Option<String>,
    /// Whether changes are heard of at once.
    pub watching: bool,
    /// Why all definitions stay as they were.
    pub kept: Option<Keeping>,
    /// Mounts that never change, and what to do about them.
    pub static_mounts: Vec<String>,
    /// By name; those that have none come last, by file.
    pub plugins: Vec<Plugin>,
}

/// Why all definitions stay as they were, whatever is there now.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Keeping {
    /// What is wrong.
    pub reason: String,
    /// For how long from the last look on, if it ends by itself.
    pub seconds_left: Option<u64>,
}

/// One plugin.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// What Applications ask for; `None` if no definition of it was ever valid.
    pub name: Option<String>,
    /// File name of its socket.
    pub socket: Option<String>,
    /// serving, stale, starting, failed or invalid.
    pub state: String,
    /// Where its definition is from.
    pub file: Option<String>,
    /// The set of definitions that it came with.
    pub generation: Option<u64>,
    /// When its definition was read; RFC 3339.
    pub loaded_at: Option<String>,
    /// Tells definitions apart.
    pub hash: Option<String>,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// States of all plugins, by name; those without a name are not among them.
pub type States = BTreeMap<PluginName, PluginState>;

/// The state of every plugin that should be served.
#[must_use]
pub fn states(desired: &Catalog, findings: &Findings, standing: &Standing) -> States {
    let state = |name: &PluginName| {
        let is_stale = || troubles(findings, name).any(|trouble| trouble.stale);
        match (standing.served.get(name), standing.failed.get(name)) {
            (Some(_), _) if is_stale() => PluginState::Stale,
            (Some(_), _) => PluginState::Serving,
            (None, Some(_)) => PluginState::Failed,
            (None, None) => PluginState::Starting,
        }
    };
    desired.iter().map(|plugin| (plugin.name.clone(), state(&plugin.name))).collect()
}

/// What is wrong with definitions that nothing is served of, those of one
/// definition together.
#[must_use]
pub fn orphans<'f>(desired: &Catalog, findings: &'f Findings) -> Vec<Vec<&'f Trouble>> {
    let origins: Vec<_> =
        desired.iter().filter_map(|plugin| findings.origin(&plugin.name)).collect();
    let is_orphan = |trouble: &&Trouble| !origins.iter().any(|origin| trouble.concerns(origin));
    let mut orphans = BTreeMap::<_, Vec<_>>::new();
    for trouble in findings.troubles().iter().filter(is_orphan) {
        orphans.entry((&trouble.file, &trouble.place)).or_default().push(trouble);
    }
    orphans.into_values().collect()
}

/// Everything about every plugin.
#[must_use]
pub fn plugins(desired: &Catalog, findings: &Findings, standing: &Standing) -> Vec<Plugin> {
    let named = states(desired, findings, standing).into_iter().map(|(name, state)| {
        let origin = findings.origin(&name);
        let failure = standing.failed.get(&name).cloned();
        let problems = troubles(findings, &name).map(|trouble| trouble.text.clone());
        Plugin {
            socket: Some(name.socket_file()),
            state: state.as_str().to_owned(),
            file: origin.map(|origin| origin.file.clone()),
            generation: origin.map(|origin| origin.generation),
            loaded_at: origin.map(|origin| rfc3339(origin.loaded_at)),
            hash: origin.map(|origin| origin.digest.short()),
            problems: problems.chain(failure).collect(),
            name: Some(name.to_string()),
        }
    });
    let unnamed = orphans(desired, findings).into_iter().map(|troubles| Plugin {
        name: None,
        socket: None,
        state: PluginState::Invalid.as_str().to_owned(),
        file: troubles.first().map(|trouble| trouble.file.clone()),
        generation: None,
        loaded_at: None,
        hash: None,
        problems: troubles.into_iter().map(|trouble| trouble.text.clone()).collect(),
    });
    named.chain(unnamed).collect()
}

impl Overview {
    /// Puts together what the parts know.
    #[must_use]
    pub fn new(
        ready: bool,
        findings: &Findings,
        plugins: Vec<Plugin>,
        static_mounts: Vec<String>,
    ) -> Self {
        let kept = findings.kept().map(|kept| Keeping {
            reason: kept.reason.clone(),
            seconds_left: kept.left.map(|left| left.as_secs()),
        });
        Self {
            ready,
            result: findings.result().as_str().to_owned(),
            generation: findings.generation(),
            last_success: findings.good_since().map(rfc3339),
            watching: findings.is_watching(),
            kept,
            static_mounts,
            plugins,
        }
    }
}

/// What is wrong with the definition of a plugin.
fn troubles<'f>(
    findings: &'f Findings,
    name: &PluginName,
) -> impl Iterator<Item = &'f Trouble> + use<'f> {
    let origin = findings.origin(name);
    let concerns = move |trouble: &&Trouble| origin.is_some_and(|origin| trouble.concerns(origin));
    findings.troubles().iter().filter(concerns)
}

/// UTC, to the second.
fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
