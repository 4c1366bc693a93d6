//! Properties of admission: nobody starves, and nothing is lost.

mod first;
mod reasons;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    budget::{PlacesFrom, Share, WAITING},
    request::admission::{
        capacity::{Origins, Places},
        waiters::Room,
    },
};

const PLUGINS: [&str; 4] = ["a", "b", "c", "d"];

const MIB: u64 = 1 << 20;

fn name(text: &str) -> PluginName {
    PluginName::new(text, "").unwrap()
}

/// A queue for so many requests that hold no more than each may.
fn room(requests: usize) -> Room {
    Room { requests, memory: WAITING * requests as u64 }
}

fn capacity(places: usize) -> Capacity {
    let total = Charge { memory: 1 << 40, processes: 1 << 20 };
    let places = Places { number: Share::new(places, ""), from: PlacesFrom::default() };
    let (generate, discover, origins) = (places.clone(), places, Origins::default());
    let room = room(100);
    Capacity { generate, discover, origins, room, total, files_in_memory: true }
}

/// Room for `floors` unmeasured requests beside the reserve of discovery.
fn memory_for(floors: u64) -> Capacity {
    let memory = Charge::FLOOR.memory * floors * 8 / 7 + MIB;
    let total = Charge { memory, processes: 1 << 20 };
    Capacity { total, ..capacity(100) }
}

/// A schedule whose requests are told apart by a number.
struct Stage {
    schedule: Schedule<usize>,
    tickets: BTreeMap<usize, (PluginName, Ticket)>,
    running: Vec<usize>,
    last: usize,
}

impl Stage {
    fn new(capacity: Capacity, members: &[&str]) -> Self {
        let mut schedule = Schedule::new(capacity);
        for member in members {
            schedule.join(&name(member));
        }
        Self { schedule, tickets: BTreeMap::new(), running: Vec::new(), last: 0 }
    }

    /// A request arrives; returns its number, or `None` if the queue is full.
    fn ask(&mut self, plugin: &str) -> Option<usize> {
        let plugin = name(plugin);
        let ask = Ask { class: Class::Generate, plugin: &plugin, unread: 1, held: 0 };
        let ticket = self.schedule.enter(&ask, self.last + 1).ok()?;
        self.last += 1;
        self.tickets.insert(self.last, (plugin, ticket));
        self.admit();
        Some(self.last)
    }

    /// A request ends, or gives up.
    fn end(&mut self, number: usize) {
        let Some((plugin, ticket)) = self.tickets.remove(&number) else { return };
        self.running.retain(|running| *running != number);
        self.schedule.leave(Class::Generate, &plugin, ticket);
        self.admit();
    }

    /// The last running requests are measured.
    fn measure(&mut self, memory: u64) {
        for (number, (_, ticket)) in &self.tickets {
            self.schedule.bind(*ticket, *number as u64);
        }
        self.schedule.measure(|_| Some(Charge { memory, processes: 2 }));
        self.admit();
    }

    fn admit(&mut self) {
        self.running.extend(self.schedule.admit());
    }

    fn of(&self, plugin: &str) -> usize {
        let is_of = |number: &&usize| self.tickets[number].0.as_str() == plugin;
        self.running.iter().filter(is_of).count()
    }

    fn waits(&self, plugin: &str) -> bool {
        let mut of = self.tickets.iter().filter(|(_, (of, _))| of.as_str() == plugin);
        of.any(|(number, _)| !self.running.contains(number))
    }
}

#[test]
fn plugins_take_turns() {
    let mut stage = Stage::new(capacity(1), &[]);
    let first = stage.ask("a").unwrap();
    let order = ["a", "a", "b", "c", "b"].map(|plugin| stage.ask(plugin).unwrap());
    let mut admitted = vec![first];
    for _ in order {
        stage.end(*admitted.last().unwrap());
        admitted.push(stage.running[0]);
    }
    let [second, third, of_b, of_c, last_of_b] = order;
    assert_eq!(admitted, [first, second, of_b, of_c, third, last_of_b]);
}

#[test]
fn the_last_place_is_left_to_a_plugin_that_has_none() {
    let mut stage = Stage::new(capacity(4), &["a", "b"]);
    for _ in 0..4 {
        stage.ask("a").unwrap();
    }
    assert_eq!(stage.of("a"), 3);
    let reserved = stage.schedule.obstacle(Class::Generate, &name("a"));
    let reserved = reserved.unwrap().to_string();
    let expected = "the limit is 4 requests at a time, and 1 of them are reserved for plugins that \
                    run none";
    assert_eq!(reserved, expected);
    stage.ask("b").unwrap();
    assert_eq!(stage.of("b"), 1);
}

#[test]
fn a_plugin_alone_uses_all_places() {
    let mut stage = Stage::new(capacity(4), &["a"]);
    for _ in 0..5 {
        stage.ask("a").unwrap();
    }
    assert_eq!(stage.of("a"), 4);
}

#[test]
fn one_place_serves_any_number_of_plugins() {
    let mut stage = Stage::new(capacity(1), &PLUGINS);
    stage.ask("a").unwrap();
    assert_eq!(stage.of("a"), 1);
}

#[test]
fn requests_that_use_little_make_room_for_others() {
    let mut stage = Stage::new(memory_for(4), &["a"]);
    for _ in 0..8 {
        stage.ask("a").unwrap();
    }
    assert_eq!(stage.of("a"), 4);
    stage.measure(3 * MIB);
    assert_eq!(stage.of("a"), 7);
    stage.measure(3 * MIB);
    assert_eq!(stage.of("a"), 8);
}

#[test]
fn requests_that_use_much_make_others_wait() {
    let mut stage = Stage::new(memory_for(4), &["a"]);
    let first = stage.ask("a").unwrap();
    stage.measure(100 * MIB);
    stage.ask("a").unwrap();
    assert_eq!(stage.of("a"), 1);
    let obstacle = stage.schedule.obstacle(Class::Generate, &name("a"));
    let budget = 4 * Charge::FLOOR.memory;
    assert!(
        matches!(obstacle, Some(Obstacle::Memory { running: 1, charged, budget: of, .. })
            if charged == 125 * MIB && of / MIB == budget / MIB),
        "{obstacle:?}"
    );
    stage.end(first);
    assert_eq!(stage.of("a"), 1);
}

#[test]
fn one_request_always_runs() {
    let mut stage = Stage::new(memory_for(0), &["a"]);
    stage.ask("a").unwrap();
    stage.ask("a").unwrap();
    assert_eq!(stage.of("a"), 1);
}

#[test]
fn a_plugin_whose_requests_are_large_is_expected_to_stay_so() {
    let mut stage = Stage::new(memory_for(16), &["a", "b"]);
    let large = stage.ask("a").unwrap();
    stage.measure(90 * MIB);
    stage.end(large);
    for _ in 0..16 {
        stage.ask("a").unwrap();
    }
    // 512 MiB, minus the reserve for the other plugin.
    assert_eq!(stage.of("a"), 5);
    assert!(stage.ask("b").is_some());
    assert_eq!(stage.of("b"), 1);
}

#[test]
fn a_plugin_is_expected_to_use_at_most_a_quarter() {
    let mut stage = Stage::new(memory_for(16), &["a", "b"]);
    let large = stage.ask("a").unwrap();
    stage.measure(400 * MIB);
    stage.end(large);
    for _ in 0..4 {
        stage.ask("a").unwrap();
    }
    assert_eq!(stage.of("a"), 3);
}

#[test]
fn the_most_that_a_request_has_used_at_a_time_counts_for_the_next() {
    let mut stage = Stage::new(memory_for(16), &["a"]);
    let request = stage.ask("a").unwrap();
    stage.measure(90 * MIB);
    stage.measure(MIB);
    stage.end(request);
    assert_eq!(stage.schedule.expected(Class::Generate, &name("a")).memory, 90 * MIB);
}

#[test]
fn discovery_does_not_change_what_a_plugin_is_expected_to_use() {
    let (mut stage, plugin) = (Stage::new(memory_for(16), &["a"]), &name("a"));
    let ask = Ask { class: Class::Discover, plugin, unread: 0, held: 0 };
    let ticket = stage.schedule.enter(&ask, 0).unwrap();
    stage.schedule.admit();
    stage.schedule.bind(ticket, 1);
    stage.schedule.measure(|_| Some(Charge { memory: 90 * MIB, processes: 2 }));
    stage.schedule.leave(Class::Discover, plugin, ticket);
    assert_eq!(stage.schedule.expected(Class::Generate, plugin), Charge::FLOOR);
}

#[test]
fn discovery_keeps_its_part_of_the_memory_whatever_others_use() {
    let (mut stage, plugin) = (Stage::new(memory_for(32), &["a"]), &name("a"));
    while stage.running.len() < 32 {
        stage.ask("a").unwrap();
    }
    stage.measure(100 * MIB);
    for _ in 0..4 {
        stage
            .schedule
            .enter(&Ask { class: Class::Discover, plugin, unread: 0, held: 0 }, 0)
            .unwrap();
    }
    assert_eq!(stage.schedule.admit().len(), 4);
}

#[test]
fn discovery_has_its_own_places_and_part_of_the_memory() {
    let mut stage = Stage::new(memory_for(8), &["a"]);
    for _ in 0..8 {
        stage.ask("a").unwrap();
    }
    stage.measure(100 * MIB);
    let (a, b) = (name("a"), name("b"));
    for _ in 0..2 {
        let ask = Ask { class: Class::Discover, plugin: &a, unread: 0, held: 0 };
        stage.schedule.enter(&ask, 0).unwrap();
    }
    assert_eq!(stage.schedule.admit().len(), 1);
    for plugin in [&a, &b] {
        let ask = Ask { class: Class::Names, plugin, unread: 0, held: 0 };
        stage.schedule.enter(&ask, 0).unwrap();
    }
    assert_eq!(stage.schedule.admit().len(), 2);
}

#[test]
fn a_plugin_that_fills_the_queue_leaves_others_their_share() {
    let mut stage = Stage::new(Capacity { room: room(8), ..capacity(1) }, &PLUGINS);
    while stage.ask("a").is_some() {}
    assert_eq!(stage.schedule.waiting(Class::Generate), 8);
    assert!(stage.ask("b").is_some() && stage.ask("b").is_some());
    let b = &name("b");
    let ask = Ask { class: Class::Generate, plugin: b, unread: 0, held: u64::MAX };
    assert_eq!(stage.schedule.enter(&ask, 0).err(), Some(Lack::Requests));
}

#[test]
fn requests_that_hold_much_leave_room_for_those_of_other_plugins() {
    let mut stage = Stage::new(Capacity { room: room(16), ..capacity(1) }, &PLUGINS);
    stage.ask("a").unwrap();
    let (a, b) = (name("a"), name("b"));
    let ask = |plugin, held| Ask { class: Class::Generate, plugin, unread: 0, held };
    let mut waiting = Vec::new();
    while let Ok(ticket) = stage.schedule.enter(&ask(&a, 3 * WAITING), 0) {
        waiting.push(ticket);
    }
    assert_eq!((waiting.len(), stage.schedule.held()), (4, 12 * WAITING));
    assert_eq!(stage.schedule.check_room(&ask(&b, 3 * WAITING)), Ok(()));
    assert_eq!(stage.schedule.check_room(&ask(&b, 4 * WAITING)), Err(Lack::Memory));
    for ticket in waiting {
        stage.schedule.leave(Class::Generate, &a, ticket);
    }
    assert_eq!(stage.schedule.held(), 0);
}

/// An event: a request arrives, one ends or gives up, or all are measured.
#[derive(Clone, Debug)]
enum Event {
    Ask(usize),
    End(prop::sample::Index),
    Measure(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..PLUGINS.len()).prop_map(Event::Ask),
        3 => any::<prop::sample::Index>().prop_map(Event::End),
        1 => (1..200_u64).prop_map(|mib| Event::Measure(mib * MIB)),
    ]
}

impl Stage {
    fn on(&mut self, event: &Event) {
        match event {
            Event::Ask(plugin) => drop(self.ask(PLUGINS[*plugin])),
            Event::Measure(memory) => self.measure(*memory),
            Event::End(which) if !self.tickets.is_empty() => {
                let numbers: Vec<_> = self.tickets.keys().copied().collect();
                self.end(numbers[which.index(numbers.len())]);
            }
            Event::End(_) => {}
        }
    }
}

proptest! {
    #[test]
    fn every_request_is_admitted_in_the_end_and_leaves_nothing(
        places in 1..6_usize,
        floors in 0..12_u64,
        events in prop::collection::vec(event(), 0..80),
    ) {
        let capacity = Capacity { total: memory_for(floors).total, ..capacity(places) };
        let mut stage = Stage::new(capacity, &PLUGINS);
        for event in &events {
            stage.on(event);
            prop_assert!(stage.running.len() <= places);
            prop_assert!(stage.tickets.is_empty() || !stage.running.is_empty());
        }
        while let Some(first) = stage.running.first().copied() {
            stage.end(first);
        }
        prop_assert!(stage.tickets.is_empty(), "{:?} starved", stage.tickets);
        let queue = stage.schedule.queue(Class::Generate);
        prop_assert_eq!((queue.waiting, queue.running, queue.unread), (Waiters::default(), 0, 0));
        prop_assert_eq!(queue.charged, Charge::NONE);
        prop_assert!(queue.plugins.is_empty() && stage.schedule.running.is_empty());
    }

    #[test]
    fn a_plugin_gets_its_first_place_before_another_gets_a_further_one(
        places in 2..8_usize,
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut stage = Stage::new(capacity(places), &PLUGINS);
        for event in &events {
            let before: Vec<_> = PLUGINS.map(|plugin| stage.of(plugin)).to_vec();
            stage.on(event);
            for (plugin, before) in PLUGINS.iter().zip(before) {
                let has_further = stage.of(plugin) > before.max(1);
                let others = PLUGINS.iter().filter(|other| *other != plugin);
                let starved = others.filter(|other| stage.of(other) == 0 && stage.waits(other));
                prop_assert!(!has_further || starved.count() == 0);
            }
        }
    }

    #[test]
    fn places_stay_free_for_plugins_that_have_none(
        places in 1..8_usize,
        asks in prop::collection::vec(0..PLUGINS.len(), 0..40),
    ) {
        let mut stage = Stage::new(capacity(places), &PLUGINS);
        for plugin in asks {
            let plugin = PLUGINS[plugin];
            let before = stage.of(plugin);
            stage.ask(plugin).unwrap();
            let idle = PLUGINS.iter().filter(|plugin| stage.of(plugin) == 0).count();
            let free = places - stage.running.len();
            let is_further = before > 0 && stage.of(plugin) > before;
            prop_assert!(!is_further || free >= idle.min(places / 2));
        }
    }
}
