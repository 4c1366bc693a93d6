//! The observations of a run.

use cmp_sandbox::Tier;

use crate::event::{Event, Refused, Used};

/// Most refusals that are kept, and most usages. A command reports at most 256 refusals.
const MAX_KEPT: usize = 1024;

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    Rendered,
    Failed,
}

/// The observations so far, of all plugins.
#[derive(Debug, Default)]
pub(super) struct Findings {
    tier: Option<Tier>,
    refused: Vec<Refused>,
    used: Vec<Used>,
}

/// The observations of one plugin.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The isolation.
    pub(super) tier: Option<Tier>,
    /// The refused accesses, in their order.
    pub(super) refused: Vec<Refused>,
    /// The usage; `None` if no command ran.
    pub(super) used: Option<Used>,
}

impl Findings {
    /// Keeps an event that is an observation.
    pub(super) fn keep(&mut self, event: &Event) {
        match event {
            Event::Ready { isolation, .. } => self.tier = Some(*isolation),
            Event::Refused(refused) if self.refused.len() < MAX_KEPT => {
                self.refused.push((**refused).clone());
            }
            Event::Used(used) if self.used.len() < MAX_KEPT => {
                self.used.push((**used).clone());
            }
            Event::Refused(_)
            | Event::Used(_)
            | Event::Failed { .. }
            | Event::NotServed { .. }
            | Event::PluginOutput { .. }
            | Event::Request { .. }
            | Event::Warning { .. } => {}
        }
    }

    /// The observations of one plugin.
    pub(super) fn of(&self, plugin: &str) -> Seen {
        let refused = self.refused.iter().filter(|refused| refused.plugin == plugin);
        let used = self.used.iter().filter(|used| used.plugin == plugin);
        Seen {
            tier: self.tier,
            refused: refused.cloned().collect(),
            used: used.cloned().reduce(|one, other| larger(one, &other)),
        }
    }
}

fn larger(one: Used, other: &Used) -> Used {
    Used {
        memory: one.memory.max(other.memory),
        processes: one.processes.max(other.processes),
        output: one.output.max(other.output),
        lost: one.lost + other.lost,
        connected: one.connected.union(&other.connected).copied().collect(),
        is_online: one.is_online || other.is_online,
        caches: one.caches.union(&other.caches).cloned().collect(),
        ..one
    }
}
