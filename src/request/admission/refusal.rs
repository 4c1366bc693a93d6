//! Reasons why a request is not admitted, for people.

use std::{borrow::Cow, fmt};

use cmp_sandbox::Health;
use thiserror::Error;

use super::waiters::{Lack, Room};
use crate::{
    budget::{PlacesFrom, show},
    metrics::Shared,
    plugin::PluginName,
    plural::plural,
    request::deadline::DeadlinePassed,
    settings::{MAX_QUEUE, MAX_REQUESTS, REQUESTS},
};

/// The limit that a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// All places are taken, or reserved.
    Places {
        /// Places of all plugins.
        limit: usize,
        /// Those for plugins that have none.
        reserved: usize,
        /// The setting or limit that it comes from, for people.
        origin: Cow<'static, str>,
        /// The same, for the remedy.
        from: PlacesFrom,
    },
    /// All places of discovery by names and of static parameters are taken, or reserved.
    Names {
        /// Places of all plugins.
        limit: usize,
        /// Those for plugins that have none.
        reserved: usize,
    },
    /// All places of the plugin are taken.
    Own {
        /// The plugin's `spec.limits.requests`.
        limit: usize,
        /// The plugin.
        plugin: PluginName,
    },
    /// The memory of all requests is used up.
    Memory {
        /// Running requests.
        running: usize,
        /// Bytes that they count for.
        charged: u64,
        /// Bytes for plugins that run none.
        kept: u64,
        /// Bytes for all requests.
        budget: u64,
        /// The limit that it comes from.
        origin: Cow<'static, str>,
    },
    /// The processes of all requests are used up.
    Processes {
        /// Running requests.
        running: usize,
        /// Processes that they count for.
        charged: u64,
        /// Processes for plugins that run none.
        kept: u64,
        /// Processes for all requests.
        budget: u64,
        /// The limit that it comes from.
        origin: Cow<'static, str>,
    },
    /// The spawner does not answer, so no request ends.
    Spawner,
}

/// Remedy for requests that hold much while they wait.
const LESS_HELD: &str = "lower ARGOCD_CMP_CHUNK_SIZE on the repo-server, or give applications \
                         fewer or shorter parameters";

/// Reasons why a request gets no place.
#[derive(Debug, Error)]
pub enum NoPermit {
    /// Too many requests wait already.
    #[error("too many requests: {obstacle}, and {}: {}",
        queue(*waiting, *own), obstacle.remedy_or(&MAX_QUEUE.raise(false)))]
    Full {
        /// The limit that they wait for.
        obstacle: Obstacle,
        /// Number of requests that may wait, of all plugins.
        waiting: usize,
        /// Number of requests of the plugin that wait, if they wait for its own places.
        own: Option<usize>,
    },
    /// Requests that wait would hold too much memory.
    #[error("too many requests: {obstacle}, and those that wait would hold more than {}: {}",
        show(*memory), obstacle.remedy_or(LESS_HELD))]
    Memory {
        /// The limit that they wait for.
        obstacle: Obstacle,
        /// Bytes for all requests that wait.
        memory: u64,
    },
    /// The deadline passed before a place was free.
    #[error("no free place: {obstacle} ({}): {passed}", obstacle.remedy())]
    Deadline {
        /// The limit that the request waited for.
        obstacle: Obstacle,
        /// The deadline.
        passed: DeadlinePassed,
    },
}

impl NoPermit {
    /// The error of a request for which there is no `room`. `own` requests of its plugin wait,
    /// if they wait for its own places.
    pub(super) fn no_room(room: Room, lack: Lack, obstacle: Obstacle, own: Option<usize>) -> Self {
        match lack {
            Lack::Requests => Self::Full { obstacle, waiting: room.requests, own },
            Lack::Memory => Self::Memory { obstacle, memory: room.memory },
        }
    }

    /// This error with its cause: while the spawner is silent, no limit is to blame.
    pub(crate) fn given(self, health: &Health) -> Self {
        if !health.is_silent {
            return self;
        }
        match self {
            Self::Full { obstacle, waiting, own } => {
                Self::Full { obstacle: obstacle.of_silence(), waiting, own }
            }
            Self::Memory { obstacle, memory } => {
                Self::Memory { obstacle: obstacle.of_silence(), memory }
            }
            Self::Deadline { obstacle, passed } => {
                Self::Deadline { obstacle: obstacle.of_silence(), passed }
            }
        }
    }
}

impl Obstacle {
    /// The resource of the budget that is short, unless the limit is another one.
    pub(super) fn resource(&self) -> Option<Shared> {
        match self {
            Self::Places { from, .. } => Some(match from {
                PlacesFrom::Memory => Shared::Memory,
                PlacesFrom::Processes => Shared::Processes,
                PlacesFrom::Setting | PlacesFrom::Leases | PlacesFrom::Descriptors => {
                    Shared::Requests
                }
            }),
            Self::Memory { .. } => Some(Shared::Memory),
            Self::Processes { .. } => Some(Shared::Processes),
            Self::Names { .. } | Self::Own { .. } | Self::Spawner => None,
        }
    }

    /// The obstacle while the spawner is silent. Requests that run no command do not need it.
    pub(crate) fn of_silence(self) -> Self {
        match self {
            Self::Names { .. } => self,
            Self::Places { .. }
            | Self::Own { .. }
            | Self::Memory { .. }
            | Self::Processes { .. }
            | Self::Spawner => Self::Spawner,
        }
    }

    /// The remedies for requests that may not even wait. No limit helps against a silent spawner.
    fn remedy_or(&self, other: &str) -> String {
        let remedy = self.remedy();
        if *self == Self::Spawner { remedy } else { format!("{remedy}, or {other}") }
    }

    /// The setting that admits more requests.
    fn remedy(&self) -> String {
        match self {
            Self::Places { origin, from, .. } => places_remedy(origin, *from),
            Self::Names { .. } => "use fewer plugins, or add replicas".to_owned(),
            Self::Own { .. } => REQUESTS.raise(true),
            Self::Memory { origin, .. } => derived(origin, MORE_MEMORY),
            Self::Processes { origin, .. } => derived(origin, MORE_PROCESSES),
            Self::Spawner => "restart the container".to_owned(),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Places { limit, reserved, .. } => {
                let limit = plural(*limit, "request");
                write!(formatter, "the limit is {limit} at a time{}", promised(*reserved))
            }
            Self::Names { limit, reserved } => {
                let limit = plural(*limit, "request");
                let promised = promised(*reserved);
                write!(formatter, "the limit is {limit} that run no command at a time{promised}")
            }
            Self::Own { limit, plugin } => {
                let limit = plural(*limit, "request");
                write!(formatter, "the limit is {limit} of plugin {plugin} at a time")
            }
            Self::Memory { running, charged, kept, budget, .. } => write!(
                formatter,
                "the limit is {} of memory for all requests, and {} for {}{}",
                show(*budget),
                counted(*running),
                show(*charged),
                reserved(*kept, show),
            ),
            Self::Processes { running, charged, kept, budget, .. } => write!(
                formatter,
                "the limit is {budget} processes of all requests, and {} for {charged}{}",
                counted(*running),
                reserved(*kept, |processes| processes.to_string()),
            ),
            Self::Spawner => formatter.write_str("the spawner does not answer"),
        }
    }
}

/// Remedies for limits of the container.
const MORE_MEMORY: &str = "raise the container's memory limit";
const MORE_PROCESSES: &str = "raise the container's PID limit";
const MORE_DESCRIPTORS: &str = "raise RLIMIT_NOFILE of the container's runtime";

/// The remedy for a number of requests at a time with this origin.
fn places_remedy(origin: &str, from: PlacesFrom) -> String {
    match from {
        PlacesFrom::Setting => MAX_REQUESTS.raise(true),
        PlacesFrom::Leases => {
            let remedy = MAX_REQUESTS.raise(true);
            derived(origin, &format!("{remedy}, or give --uid-range more UIDs"))
        }
        PlacesFrom::Memory => derived(origin, MORE_MEMORY),
        PlacesFrom::Processes => derived(origin, MORE_PROCESSES),
        PlacesFrom::Descriptors => derived(origin, MORE_DESCRIPTORS),
    }
}

/// The places that are left to other plugins, if there are any.
fn promised(places: usize) -> String {
    if places == 0 {
        return String::new();
    }
    format!(", and {places} of them are reserved for plugins that run none")
}

/// The part that is left to other plugins, if there is one.
fn reserved(kept: u64, show: impl Fn(u64) -> String) -> String {
    if kept == 0 {
        return String::new();
    }
    format!("; {} more are reserved for plugins that run none", show(kept))
}

/// A remedy, after the origin of a limit that is not set by a flag itself.
fn derived(origin: &str, remedy: &str) -> String {
    if origin.is_empty() {
        return remedy.to_owned();
    }
    format!("it comes from {origin}: {remedy}")
}

/// The requests that wait.
fn queue(all: usize, own: Option<usize>) -> String {
    match own {
        None => format!("{all} waiting"),
        Some(own) => format!("{own} waiting (at most {all} of all plugins)"),
    }
}

fn counted(running: usize) -> String {
    let verb = if running == 1 { "counts" } else { "count" };
    format!("{} {verb}", plural(running, "running request"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::request::Deadline;

    #[test]
    fn the_remedy_for_places_raises_the_limit_that_they_come_from() {
        for (from, resource, remedy) in [
            (PlacesFrom::Setting, Shared::Requests, "raise --max-requests"),
            (PlacesFrom::Leases, Shared::Requests, "or give --uid-range more UIDs"),
            (PlacesFrom::Memory, Shared::Memory, "it comes from x: raise the container's memory"),
            (PlacesFrom::Processes, Shared::Processes, "x: raise the container's PID limit"),
            (PlacesFrom::Descriptors, Shared::Requests, "x: raise RLIMIT_NOFILE of the container"),
        ] {
            let places = Obstacle::Places { limit: 1, reserved: 0, origin: "x".into(), from };
            let (told, is_uids) = (places.remedy(), from == PlacesFrom::Leases);
            assert!(told.contains(remedy) && told.contains("UIDs") == is_uids, "{from:?}: {told}");
            assert_eq!(places.resource(), Some(resource));
        }
    }

    #[test]
    fn while_the_spawner_is_silent_no_limit_is_blamed() {
        let well = Health::default();
        let mut silent = well.clone();
        silent.is_silent = true;
        let own = || Obstacle::Own { limit: 1, plugin: PluginName::new("p", "").unwrap() };
        let passed = DeadlinePassed(Deadline::new(Some(Duration::from_secs(9)), None));
        let full = |obstacle| NoPermit::Full { obstacle, waiting: 2, own: None };
        for refused in [
            full(own()),
            NoPermit::Memory { obstacle: own(), memory: 1 },
            NoPermit::Deadline { obstacle: own(), passed },
        ] {
            let text = refused.given(&silent).to_string();
            let is_blamed = text.contains(": the spawner does not answer");
            assert!(is_blamed && text.contains("restart the container"), "{text}");
            let others = ["the limit is", "--max-queue", "ARGOCD_CMP_CHUNK_SIZE"];
            assert!(!others.iter().any(|other| text.contains(other)), "{text}");
        }
        let text = full(own()).given(&well).to_string();
        assert!(text.ends_with("raise the plugin's spec.limits.requests, or raise --max-queue"));
        let names = full(Obstacle::Names { limit: 1, reserved: 0 }).given(&silent).to_string();
        assert!(names.contains("that run no command"), "{names}");
    }

    #[test]
    fn an_obstacle_names_its_numbers() {
        let origin = Cow::Borrowed("container limit 1Gi");
        let memory = Obstacle::Memory {
            running: 25,
            charged: 837_000_000,
            kept: 0,
            budget: 896 << 20,
            origin: origin.clone(),
        };
        assert_eq!(
            memory.remedy(),
            "it comes from container limit 1Gi: raise the container's memory limit"
        );
        assert_eq!(
            memory.to_string(),
            "the limit is 896Mi of memory for all requests, and 25 running requests count for 798Mi"
        );
        let processes =
            Obstacle::Processes { running: 1, charged: 100, kept: 32, budget: 144, origin };
        assert_eq!(
            processes.to_string(),
            "the limit is 144 processes of all requests, and 1 running request counts for 100; \
             32 more are reserved for plugins that run none"
        );
    }
}
