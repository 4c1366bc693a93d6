//! The places and the budget that admission shares out.

use std::borrow::Cow;

use super::charge::Charge;
use crate::budget::Budget;

/// Concurrent requests that are answered by names. More than the processors can
/// handle would not help, and all indexes of names together have 64 MiB.
const MAX_NAME_REQUESTS: usize = 16;

/// Discovery by a command always has this part of the budget, as a divisor.
const DISCOVERY_DIVISOR: u64 = 8;

/// A group of requests with its own places. Classes do not wait for each other:
/// discovery must answer while all places for generate are taken, because Argo
/// CD would otherwise apply the raw files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Generate and parameter announcements.
    Generate,
    /// Discovery by a command.
    Discover,
    /// Discovery by names, which needs no lease and no process.
    Names,
}

/// The limits of all requests together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Requests with a command that may run at a time, for each class.
    pub(super) places: usize,
    /// The origins of the numbers, for people.
    pub(super) origins: Origins,
    /// Requests of each class that may wait.
    pub(super) queue: usize,
    /// Memory and processes of all requests.
    pub(super) total: Charge,
    /// True if files of requests count as memory.
    pub(super) files_in_memory: bool,
}

/// The limits and settings that the numbers come from, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origins {
    pub(super) places: Cow<'static, str>,
    pub(super) memory: Cow<'static, str>,
    pub(super) processes: Cow<'static, str>,
}

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Generate, Self::Discover, Self::Names];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Generate => 0,
            Self::Discover => 1,
            Self::Names => 2,
        }
    }
}

impl Capacity {
    /// Places of one class.
    pub(super) fn places(&self, class: Class) -> usize {
        match class {
            Class::Generate | Class::Discover => self.places,
            Class::Names => MAX_NAME_REQUESTS,
        }
    }

    /// The part of the budget that generate leaves to discovery.
    pub(super) fn discovery_reserve(&self) -> Charge {
        self.total.part(DISCOVERY_DIVISOR)
    }
}

impl From<&Budget> for Capacity {
    fn from(budget: &Budget) -> Self {
        let leases = budget.leases.amount as usize;
        let few = leases < budget.requests.amount;
        Self {
            places: budget.requests.amount.min(leases),
            origins: Origins {
                places: if few { &budget.leases.origin } else { &budget.requests.origin }.clone(),
                memory: budget.memory.origin.clone(),
                processes: budget.processes.origin.clone(),
            },
            queue: budget.queue.amount,
            total: Charge { memory: budget.memory.amount, processes: budget.processes.amount },
            files_in_memory: budget.in_memory,
        }
    }
}
