//! Compares requests with the budget.

use std::collections::BTreeMap;

use super::{Charge, Class, ClassQueue, Obstacle, Schedule};
use crate::plugin::PluginName;

impl<W> Schedule<W> {
    /// The part of a class's budget that does not suffice for `wanted` and `reserved` places.
    pub(super) fn shortage(
        &self,
        class: Class,
        wanted: Charge,
        reserved: usize,
    ) -> Option<Obstacle> {
        let (ClassQueue { running, charged, .. }, budget) = (self.queue(class), self.room(class));
        let (running, kept) = (*running, Self::floor(class).times(reserved as u64));
        let (needed, origins) = (charged.plus(wanted).plus(kept), &self.capacity.origins);
        if needed.memory > budget.memory {
            let (charged, kept, budget) = (charged.memory, kept.memory, budget.memory);
            let origin = origins.memory.clone();
            return Some(Obstacle::Memory { running, charged, kept, budget, origin });
        }
        let (charged, kept, budget) = (charged.processes, kept.processes, budget.processes);
        (needed.processes > budget).then(|| {
            let origin = origins.processes.clone();
            Obstacle::Processes { running, charged, kept, budget, origin }
        })
    }

    /// Returns true if a request fits beside what all others use now, however much was measured
    /// of a single plugin: if all then use too much, the largest request is ended.
    pub(super) fn fits_now(&self, class: Class, plugin: &PluginName) -> bool {
        let (total, mut needed) = (self.capacity.total, self.expected(class, plugin));
        let mut measured = BTreeMap::<_, Charge>::new();
        for other in self.running.values() {
            let is_measured = other.peak != Charge::NONE;
            let own = is_measured.then(|| measured.entry(&other.plugin).or_default());
            *own.unwrap_or(&mut needed) += other.usage;
        }
        let most = measured.values().map(|own| own.min(total.part(2)));
        let needed = most.fold(needed, Charge::plus);
        needed.memory <= total.memory && needed.processes <= total.processes
    }

    /// The part of the budget for one class. Generate leaves discovery its reserve;
    /// discovery can also use what generate does not.
    fn room(&self, class: Class) -> Charge {
        let (total, reserve) = (self.capacity.total, self.capacity.discovery_reserve());
        match class {
            Class::Generate => total.minus(self.queue(Class::Discover).charged.max(reserve)),
            Class::Discover => total.minus(self.queue(Class::Generate).charged).max(reserve),
            Class::Names => Charge::ANY,
        }
    }
}
