//! The places and the budget that admission shares out.

use std::borrow::Cow;

use super::{charge::Charge, refusal::Obstacle, waiters::Room};
use crate::{
    budget::{Budget, PlacesFrom, Share},
    plugin::PluginName,
};

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
    /// Generate, and parameter announcements by a command.
    Generate,
    /// Discovery by a command.
    Discover,
    /// Discovery by names, and static parameters, which need no lease and no process.
    Names,
}

/// A request that asks for a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) class: Class,
    pub(crate) plugin: &'a PluginName,
    /// Bytes of its archive that must still be read from its client.
    pub(crate) unread: u64,
    /// Bytes that it holds while it waits, beyond those that each request may.
    pub(crate) held: u64,
}

/// The limits of all requests together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Requests that may generate at a time.
    pub(super) generate: Places,
    /// Requests that may do discovery by a command at a time.
    pub(super) discover: Places,
    /// The origins of the budget, for people.
    pub(super) origins: Origins,
    /// The room for requests that wait, in each class.
    pub(super) room: Room,
    /// Memory and processes of all requests.
    pub(super) total: Charge,
    /// True if files of requests count as memory.
    pub(super) files_in_memory: bool,
}

/// The number of requests at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) number: Share<usize>,
    pub(super) from: PlacesFrom,
}

/// The limits and settings that the numbers come from, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origins {
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
            Class::Generate => self.generate.number.amount,
            Class::Discover => self.discover.number.amount,
            Class::Names => MAX_NAME_REQUESTS,
        }
    }

    /// The obstacle if all places of a class are taken, or the last `reserved` of them are
    /// promised to others.
    pub(super) fn no_place(&self, class: Class, reserved: usize) -> Obstacle {
        let places = |Places { number, from }: &Places| {
            let Share { amount: limit, origin } = number.clone();
            Obstacle::Places { limit, reserved, origin, from: *from }
        };
        match class {
            Class::Generate => places(&self.generate),
            Class::Discover => places(&self.discover),
            Class::Names => Obstacle::Names { limit: MAX_NAME_REQUESTS, reserved },
        }
    }

    /// The part of the budget that generate leaves to discovery.
    pub(super) fn discovery_reserve(&self) -> Charge {
        self.total.part(DISCOVERY_DIVISOR)
    }
}

impl From<&Budget> for Capacity {
    fn from(budget: &Budget) -> Self {
        let places = |leases: u32| {
            let few = Share::new(leases as usize, budget.leases.origin.clone());
            if few.amount < budget.requests.amount {
                return Places { number: few, from: PlacesFrom::Leases };
            }
            Places { number: budget.requests.clone(), from: budget.places_from }
        };
        Self {
            generate: places(budget.leases_of_generate()),
            discover: places(budget.leases.amount),
            origins: Origins {
                memory: budget.memory.origin.clone(),
                processes: budget.processes.origin.clone(),
            },
            room: Room::from(budget),
            total: Charge { memory: budget.memory.amount, processes: budget.processes.amount },
            files_in_memory: budget.in_memory,
        }
    }
}
