//! Decides which waiting request is admitted next. Pure: it knows no clock.
//!
//! The plugin with the fewest running requests is next, and among equals the one
//! that has waited longest for its turn. Within a plugin, arrival decides. A
//! request is admitted if a place is free and its charge fits beside all others.
//! For the first one of a plugin, it is enough that it fits beside what the others
//! really use, of which one plugin counts for half of the budget at most.

mod budget;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
};

use super::{
    capacity::{Ask, Capacity, Class},
    charge::Charge,
    refusal::Obstacle,
    waiters::{Lack, Waiters},
};
use crate::plugin::PluginName;

/// Places that stay free for plugins without a running request, at most.
const RESERVED_PLACES: usize = 4;

/// Weight of a request's peak in the expectation for the plugin's next request,
/// as a divisor.
const LEARNING_DIVISOR: u64 = 4;

/// No request is expected to use more than this part of the budget, as a divisor.
/// One large request would otherwise make all later ones wait for each other.
const EXPECTATION_DIVISOR: u64 = 4;

/// Identifies a request from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

/// All requests that wait or run. `W` is told when a request is admitted.
#[derive(Debug)]
pub(super) struct Schedule<W> {
    capacity: Capacity,
    /// The served plugins, and those with requests.
    members: BTreeMap<PluginName, Member>,
    queues: [ClassQueue<W>; Class::ALL.len()],
    running: HashMap<Ticket, Running>,
    last: u64,
}

#[derive(Debug, Default)]
struct Member {
    /// Servers of the plugin; two while a socket is replaced.
    servers: usize,
    /// The expected peak of a request, once one was measured.
    expected: Charge,
}

/// The requests of one class.
#[derive(Debug)]
struct ClassQueue<W> {
    plugins: BTreeMap<PluginName, PluginQueue<W>>,
    waiting: Waiters,
    unread: u64,
    running: usize,
    charged: Charge,
}

/// The requests of one plugin in a class.
#[derive(Debug)]
struct PluginQueue<W> {
    waiting: VecDeque<Waiting<W>>,
    waiters: Waiters,
    running: usize,
    /// Rises with each turn of any plugin; the smallest one is next.
    since: u64,
}

#[derive(Debug)]
struct Waiting<W> {
    ticket: Ticket,
    unread: u64,
    held: u64,
    waker: W,
}

#[derive(Debug)]
struct Running {
    class: Class,
    plugin: PluginName,
    /// The ID of its lease, by which it is measured.
    lease: Option<u64>,
    charge: Charge,
    /// The last measurement, or the charge before the first one.
    usage: Charge,
    peak: Charge,
}

impl<W> Schedule<W> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            members: BTreeMap::new(),
            queues: std::array::from_fn(|_| ClassQueue::default()),
            running: HashMap::new(),
            last: 0,
        }
    }

    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// Counts a plugin among those for which places are reserved.
    pub(super) fn join(&mut self, plugin: &PluginName) {
        self.members.entry(plugin.clone()).or_default().servers += 1;
    }

    pub(super) fn part(&mut self, plugin: &PluginName) {
        if let Some(member) = self.members.get_mut(plugin) {
            member.servers = member.servers.saturating_sub(1);
            if member.servers == 0 {
                self.members.remove(plugin);
            }
        }
    }

    /// Adds a request to the end of its plugin's queue. Fails if there is no room in it.
    pub(super) fn enter(&mut self, ask: &Ask<'_>, waker: W) -> Result<Ticket, Lack> {
        if let Err(lack) = self.check_room(ask)
            && !self.is_next(ask)
        {
            return Err(lack);
        }
        let (since, ticket) = (self.number(), Ticket(self.number()));
        let queue = self.queue_mut(ask.class);
        let own = queue.plugins.entry(ask.plugin.clone()).or_default();
        if own.waiting.is_empty() {
            own.since = since;
        }
        let Ask { unread, held, .. } = *ask;
        own.waiting.push_back(Waiting { ticket, unread, held, waker });
        own.waiters.add(held);
        queue.waiting.add(held);
        queue.unread = queue.unread.saturating_add(unread);
        Ok(ticket)
    }

    /// Removes a request that waits or runs.
    pub(super) fn leave(&mut self, class: Class, plugin: &PluginName, ticket: Ticket) {
        let ended = self.running.remove(&ticket);
        let queue = self.queue_mut(class);
        let Some(own) = queue.plugins.get_mut(plugin) else { return };
        if let Some(running) = &ended {
            own.running -= 1;
            queue.running -= 1;
            queue.charged -= running.charge;
        } else {
            let position = own.waiting.iter().position(|waiting| waiting.ticket == ticket);
            if let Some(left) = position.and_then(|position| own.waiting.remove(position)) {
                own.waiters.remove(left.held);
                queue.waiting.remove(left.held);
                queue.unread = queue.unread.saturating_sub(left.unread);
            }
        }
        if own.waiting.is_empty() && own.running == 0 {
            queue.plugins.remove(plugin);
        }
        if let Some(running) = ended {
            self.learn(&running);
        }
    }

    /// Names the lease by which a running request is measured.
    pub(super) fn bind(&mut self, ticket: Ticket, lease: u64) {
        if let Some(running) = self.running.get_mut(&ticket) {
            running.lease = Some(lease);
        }
    }

    /// Replaces the charges of the measured requests.
    pub(super) fn measure(&mut self, measured: impl Fn(u64) -> Option<Charge>) {
        for running in self.running.values_mut() {
            let Some(usage) = running.lease.and_then(&measured) else { continue };
            running.peak = running.peak.max(usage);
            running.usage = usage;
            let before = mem::replace(&mut running.charge, usage.with_headroom());
            let charged = &mut self.queues[running.class.index()].charged;
            *charged -= before;
            *charged += running.charge;
        }
    }

    /// Admits as many requests as fit.
    pub(super) fn admit(&mut self) -> Vec<W> {
        let mut admitted = Vec::new();
        for class in Class::ALL {
            while let Some(waker) = self.admit_next(class) {
                admitted.push(waker);
            }
        }
        admitted
    }

    /// The reason why a request of the plugin would not be admitted now.
    pub(super) fn obstacle(&self, class: Class, plugin: &PluginName) -> Option<Obstacle> {
        let queue = self.queue(class);
        let (running, limit) = (queue.running, self.capacity.places(class));
        if running >= limit {
            return Some(self.capacity.no_place(class, 0));
        }
        if running == 0 {
            return None;
        }
        let own = queue.plugins.get(plugin).map_or(0, |own| own.running);
        let reserved = if own == 0 { 0 } else { self.reserved(class, plugin) };
        if running + reserved >= limit {
            return Some(self.capacity.no_place(class, reserved));
        }
        if own == 0 && self.fits_now(class, plugin) {
            return None;
        }
        self.shortage(class, self.expected(class, plugin), reserved)
    }

    /// The reason why a request of the plugin waits: its obstacle, or that of the plugin whose
    /// turn it is.
    pub(super) fn reason(&self, class: Class, plugin: &PluginName) -> Obstacle {
        let obstacle = self.obstacle(class, plugin).or_else(|| self.obstacle_of_next(class));
        obstacle.unwrap_or_else(|| self.capacity.no_place(class, 0))
    }

    /// The reason why the plugin whose turn it is waits, and with it all others of the class.
    pub(super) fn obstacle_of_next(&self, class: Class) -> Option<Obstacle> {
        self.obstacle(class, self.turn(class)?)
    }

    /// The reason why requests of the plugin wait, in the first class in which some do.
    pub(super) fn waits_for(&self, plugin: &PluginName) -> Option<Obstacle> {
        Class::ALL.into_iter().find_map(|class| {
            let own = self.queue(class).plugins.get(plugin)?;
            (!own.waiting.is_empty()).then(|| self.reason(class, plugin))
        })
    }

    /// Bytes that must still be read from the waiting clients of a class.
    pub(super) fn unread(&self, class: Class) -> u64 {
        self.queue(class).unread
    }

    /// Requests that run.
    pub(super) fn running(&self, class: Class) -> usize {
        self.queue(class).running
    }

    /// Requests that wait.
    pub(super) fn waiting(&self, class: Class) -> usize {
        self.queue(class).waiting.requests
    }

    /// Bytes that waiting requests of all classes hold, beyond those that each may.
    pub(super) fn held(&self) -> u64 {
        self.queues.iter().map(|queue| queue.waiting.held).fold(0, u64::saturating_add)
    }

    fn admit_next(&mut self, class: Class) -> Option<W> {
        let plugin = self.next(class)?.clone();
        let charge = self.expected(class, &plugin);
        let since = self.number();
        let queue = self.queue_mut(class);
        let own = queue.plugins.get_mut(&plugin)?;
        let Waiting { ticket, unread, held, waker } = own.waiting.pop_front()?;
        own.waiters.remove(held);
        own.running += 1;
        own.since = since;
        queue.running += 1;
        queue.waiting.remove(held);
        queue.unread = queue.unread.saturating_sub(unread);
        queue.charged += charge;
        let (usage, peak) = (charge, Charge::NONE);
        let running = Running { class, plugin, lease: None, charge, usage, peak };
        self.running.insert(ticket, running);
        Some(waker)
    }

    /// The plugin whose turn it is, if its request fits. Nobody overtakes it:
    /// its request would otherwise wait for ever if it is large.
    fn next(&self, class: Class) -> Option<&PluginName> {
        self.turn(class).filter(|plugin| self.obstacle(class, plugin).is_none())
    }

    /// The plugin whose turn it is.
    fn turn(&self, class: Class) -> Option<&PluginName> {
        let plugins = self.queue(class).plugins.iter();
        let asking = plugins.filter(|(_, own)| !own.waiting.is_empty());
        asking.min_by_key(|(_, own)| (own.running, own.since)).map(|(plugin, _)| plugin)
    }

    /// True if a request that arrives now is admitted at once.
    fn is_next(&self, ask: &Ask<'_>) -> bool {
        self.waiting(ask.class) == 0 && self.obstacle(ask.class, ask.plugin).is_none()
    }

    /// A plugin that fills the queue leaves each other one its share of it.
    fn check_room(&self, ask: &Ask<'_>) -> Result<(), Lack> {
        let (queue, room) = (self.queue(ask.class), self.capacity.room);
        let own = queue.plugins.get(ask.plugin).map_or(Waiters::default(), |own| own.waiters);
        let all = Waiters { held: self.held(), ..queue.waiting };
        let part = room.part(self.members.len());
        room.check(all, ask.held).or_else(|lack| part.check(own, ask.held).map_err(|_own| lack))
    }

    /// Places that `plugin`, which has one, leaves to plugins that have none.
    fn reserved(&self, class: Class, plugin: &PluginName) -> usize {
        let plugins = &self.queue(class).plugins;
        let has_none = |name: &PluginName| plugins.get(name).is_none_or(|own| own.running == 0);
        let idle = self.members.keys().filter(|name| *name != plugin && has_none(name));
        let most = RESERVED_PLACES.min(self.capacity.places(class) / 2);
        idle.take(most).count()
    }

    /// The charge of a plugin's request until it is measured.
    fn expected(&self, class: Class, plugin: &PluginName) -> Charge {
        let most = self.capacity.total.part(EXPECTATION_DIVISOR);
        let member = self.members.get(plugin).filter(|_| class == Class::Generate);
        member.map_or(Charge::NONE, |member| member.expected.min(most)).max(Self::floor(class))
    }

    /// The least charge of a request that is not measured. Discovery by names has
    /// no processes.
    fn floor(class: Class) -> Charge {
        if class == Class::Names { Charge::NONE } else { Charge::FLOOR }
    }

    /// Adjusts the expectation for the plugin's next request.
    fn learn(&mut self, ended: &Running) {
        let is_measured = ended.class == Class::Generate && ended.peak != Charge::NONE;
        if let Some(member) = self.members.get_mut(&ended.plugin).filter(|_| is_measured) {
            let (before, part) = (member.expected, |of: Charge| of.part(LEARNING_DIVISOR));
            member.expected = match before {
                Charge::NONE => ended.peak,
                _ => before.minus(part(before)).plus(part(ended.peak)),
            };
        }
    }

    fn queue(&self, class: Class) -> &ClassQueue<W> {
        &self.queues[class.index()]
    }

    fn queue_mut(&mut self, class: Class) -> &mut ClassQueue<W> {
        &mut self.queues[class.index()]
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl<W> Default for ClassQueue<W> {
    fn default() -> Self {
        let (charged, waiting) = (Charge::NONE, Waiters::default());
        Self { plugins: BTreeMap::new(), waiting, unread: 0, running: 0, charged }
    }
}

impl<W> Default for PluginQueue<W> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), waiters: Waiters::default(), running: 0, since: 0 }
    }
}
