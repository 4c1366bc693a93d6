//! Metrics of applications, for `--metrics-per-application`.
//!
//! Only the applications that cost most have series of their own; `other` counts the
//! requests of all others. Each request is counted once, so sums and rates are right
//! while applications come and go.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Dimension, Family, Kind, Metrics, PluginMetrics, family, page::block};

pub(super) static CPU: Family = family(
    ("argocd_cmp_application_cpu_seconds_total", Kind::SecondsCounter),
    LABELS,
    "CPU time of an application's commands; only with --metrics-per-application.",
);
pub(super) static PEAK_MEMORY: Family = family(
    ("argocd_cmp_application_peak_memory_bytes", Kind::Gauge),
    LABELS,
    "Most memory that a request of an application used, since the series exists; only with --metrics-per-application.",
);
pub(super) static REQUESTS: Family = family(
    ("argocd_cmp_application_requests_total", Kind::Counter),
    LABELS,
    "Requests of an application that ended; only with --metrics-per-application.",
);

const LABELS: &[Dimension] = &[Dimension::Plugin, Dimension::Application];

/// A value, as the page has it.
type ShownValue = fn(&Sum) -> String;

/// The families, and the value of each.
const SHOWN: [(&Family, ShownValue); 3] = [
    (&CPU, |sum| sum.cpu.as_secs_f64().to_string()),
    (&PEAK_MEMORY, |sum| sum.peak_memory.to_string()),
    (&REQUESTS, |sum| sum.requests.to_string()),
];

/// The application of all requests that have no series of their own.
const OTHER: &str = "other";

/// Applications that are remembered for each one with series, so that many cheap
/// requests can be recognised as expensive.
const REMEMBERED: usize = 4;

/// Time in which past costs lose half of their weight.
const HALF_LIFE: Duration = Duration::from_hours(1);

/// An application without requests for this long has no series.
const FORGOTTEN: Duration = Duration::from_hours(24);

/// An application replaces another one in the series if it costs this many times as
/// much: those that cost the same do not take turns.
const MARGIN: f64 = 1.25;

/// The cost of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time of its commands.
    pub cpu: Duration,
    /// Most memory of its commands; 0 if it was not measured.
    pub peak_memory: u64,
}

/// The sum of costs in the series of an application.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cpu: Duration,
    peak_memory: u64,
    requests: u64,
}

/// A plugin and an application.
type Name = (Arc<str>, String);

/// An application that had a request.
#[derive(Debug)]
struct Known {
    /// CPU time in seconds; past costs weigh less.
    score: f64,
    at: Instant,
    shown: Option<Sum>,
}

#[derive(Debug, Default)]
struct Table {
    /// Most applications with series; none are counted if it is 0.
    most: usize,
    known: BTreeMap<Name, Known>,
    others: BTreeMap<Arc<str>, Sum>,
}

/// The costs of applications. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Applications(Arc<Mutex<Table>>);

impl Sum {
    fn add(&mut self, cost: Cost) {
        self.cpu += cost.cpu;
        self.peak_memory = self.peak_memory.max(cost.peak_memory);
        self.requests += 1;
    }
}

impl Known {
    /// The score at a later time.
    fn score(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        self.score * 0.5_f64.powf(age / HALF_LIFE.as_secs_f64())
    }
}

impl Applications {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request.
    fn count(&self, name: Name, cost: Cost, now: Instant) {
        let mut table = self.table();
        if table.most == 0 {
            return;
        }
        table.meet(&name, cost, now);
        match table.known.get_mut(&name).and_then(|known| known.shown.as_mut()) {
            Some(sum) => sum.add(cost),
            None => table.others.entry(name.0).or_default().add(cost),
        }
    }

    pub(super) fn forget(&self, plugin: &str) {
        let mut table = self.table();
        table.known.retain(|(owner, _), _| **owner != *plugin);
        table.others.remove(plugin);
    }

    /// The series of a plugin's other applications exist from the start.
    pub(super) fn begin(&self, plugin: &Arc<str>) {
        let mut table = self.table();
        if table.most > 0 {
            table.others.entry(Arc::clone(plugin)).or_default();
        }
    }

    pub(super) fn page(&self, now: Instant) -> String {
        let (mut page, mut table) = (String::new(), self.table());
        if table.most == 0 {
            return page;
        }
        table.known.retain(|_, known| now.saturating_duration_since(known.at) < FORGOTTEN);
        for (family, value_of) in SHOWN {
            let samples = table.shown();
            let samples = samples.map(|((plugin, name), sum)| (vec![plugin, name], value_of(sum)));
            page += &block(family, samples);
        }
        page
    }
}

impl Table {
    /// Notes the cost of an application, and gives it series if it costs enough.
    fn meet(&mut self, name: &Name, cost: Cost, now: Instant) {
        let score = self.remember(name, cost, now);
        let is_shown = self.known.get(name).is_some_and(|known| known.shown.is_some());
        if is_shown || name.1 == OTHER || !self.make_room(score, now) {
            return;
        }
        if let Some(known) = self.known.get_mut(name) {
            known.shown = Some(Sum::default());
        }
    }

    /// Adds the cost to an application's score, which is returned. A new application takes
    /// the place of the cheapest one without series if too many are remembered.
    fn remember(&mut self, name: &Name, cost: Cost, now: Instant) -> f64 {
        if !self.known.contains_key(name) && self.known.len() >= self.most * REMEMBERED {
            let forgotten = self.cheapest(now, |known| known.shown.is_none());
            forgotten.map(|(name, _)| self.known.remove(&name));
        }
        let empty = || Known { score: 0.0, at: now, shown: None };
        let known = self.known.entry(name.clone()).or_insert_with(empty);
        let score = known.score(now) + cost.cpu.as_secs_f64();
        (known.score, known.at) = (score, now);
        score
    }

    /// Makes room for the series of an application with this score: takes them from the
    /// cheapest one if there are no others left. Returns false if that costs about as much.
    fn make_room(&mut self, score: f64, now: Instant) -> bool {
        if self.known.values().filter(|known| known.shown.is_some()).count() < self.most {
            return true;
        }
        let cheapest = self.cheapest(now, |known| known.shown.is_some());
        let Some((loser, _)) = cheapest.filter(|(_, least)| score > least * MARGIN) else {
            return false;
        };
        if let Some(known) = self.known.get_mut(&loser) {
            known.shown = None;
        }
        true
    }

    /// The application with the lowest score.
    fn cheapest(&self, now: Instant, of: impl Fn(&Known) -> bool) -> Option<(Name, f64)> {
        let some = self.known.iter().filter(|(_, known)| of(known));
        let scores = some.map(|(name, known)| (name, known.score(now)));
        let (name, score) = scores.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some((name.clone(), score))
    }

    fn shown(&self) -> impl Iterator<Item = ((&str, &str), &Sum)> {
        let own = self.known.iter().filter_map(|((plugin, name), known)| {
            Some(((&**plugin, name.as_str()), known.shown.as_ref()?))
        });
        own.chain(self.others.iter().map(|(plugin, sum)| ((&**plugin, OTHER), sum)))
    }
}

impl Metrics {
    /// Gives series to this many applications. Call it before plugins are loaded: the series
    /// of their other applications begin then.
    #[must_use]
    pub fn with_applications(self, most: u32) -> Self {
        self.applications.table().most = most as usize;
        self
    }
}

impl PluginMetrics {
    /// Counts a request of an application.
    pub fn application(&self, name: &str, cost: Cost) {
        let name = (Arc::clone(&self.plugin), name.to_owned());
        let Metrics { applications, plugins, .. } = &self.metrics;
        applications.count(name, cost, Instant::now());
        // A request may end after its plugin is gone, and nobody removes its series then.
        if plugins.is_gone(&self.plugin) {
            applications.forget(&self.plugin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        applications: Applications,
        now: Instant,
    }

    impl Bench {
        fn new(most: usize) -> Self {
            let applications = Applications::default();
            applications.table().most = most;
            Self { applications, now: Instant::now() }
        }

        fn count(&self, name: &str, seconds: u64) {
            let cost = Cost { cpu: Duration::from_secs(seconds), peak_memory: 7 * seconds };
            self.applications.count(("p".into(), name.to_owned()), cost, self.now);
        }

        /// CPU time of each application.
        fn costs(&self) -> String {
            let page = self.applications.page(self.now);
            let start = format!("{}{{plugin=\"p\",application=\"", CPU.name);
            let lines = page.lines().filter_map(|line| line.strip_prefix(&start));
            lines.map(|line| line.replace("\"}", "")).collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn the_most_expensive_have_series_and_the_rest_is_other() {
        let bench = Bench::new(2);
        for (name, seconds) in [("a", 10), ("b", 1), ("c", 1), ("c", 1), ("d", 1)] {
            bench.count(name, seconds);
        }
        // The first request of `c` was counted before it had series.
        assert_eq!(bench.costs(), "a 10, c 1, other 2");
        let page = bench.applications.page(bench.now);
        for line in [
            r#"argocd_cmp_application_peak_memory_bytes{plugin="p",application="a"} 70"#,
            r#"argocd_cmp_application_requests_total{plugin="p",application="other"} 2"#,
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
        }
    }

    #[test]
    fn an_application_with_the_name_of_the_rest_is_counted_with_it() {
        let bench = Bench::new(2);
        for (name, seconds) in [("other", 9), ("a", 1), ("b", 1), ("c", 1)] {
            bench.count(name, seconds);
        }
        assert_eq!(bench.costs(), "a 1, b 1, other 10");
    }

    #[test]
    fn past_costs_weigh_less_and_idle_applications_are_forgotten() {
        let mut bench = Bench::new(1);
        bench.count("a", 10);
        bench.now += HALF_LIFE * 2;
        bench.count("b", 3);
        assert_eq!(bench.costs(), "a 10, other 3");
        bench.count("b", 3);
        assert_eq!(bench.costs(), "b 3, other 3");
        bench.now += FORGOTTEN;
        assert_eq!(bench.costs(), "other 3");
    }

    #[test]
    fn memory_and_series_are_bounded() {
        let bench = Bench::new(5);
        (0..1000_u64).for_each(|number| bench.count(&format!("app-{number}"), number % 10));
        let table = bench.applications.table();
        assert!(table.known.len() <= 5 * REMEMBERED, "{}", table.known.len());
        assert_eq!(table.shown().count(), 6);
        let requests: u64 = table.shown().map(|(_, sum)| sum.requests).sum();
        assert!(requests <= 1000);
    }

    #[test]
    fn nothing_is_shown_unless_it_is_wanted() {
        let bench = Bench::new(0);
        bench.count("a", 1);
        assert_eq!(bench.applications.page(bench.now), "");
    }

    #[test]
    fn a_removed_plugin_takes_its_applications_with_it() {
        let bench = Bench::new(1);
        bench.count("a", 1);
        bench.count("b", 1);
        bench.applications.forget("p");
        assert_eq!(bench.costs(), "");
    }

    #[test]
    fn a_request_that_ends_after_its_plugin_is_gone_leaves_no_series() {
        let metrics = Metrics::new().with_applications(1);
        let plugin = metrics.plugin("p");
        for name in ["first", "second"] {
            plugin.application(name, Cost::default());
        }
        let count = || metrics.applications.page(Instant::now()).matches("plugin=").count();
        assert_eq!(count(), 6);
        metrics.plugin_gone("p");
        for name in ["first", "second"] {
            plugin.application(name, Cost::default());
        }
        assert_eq!(count(), 0);
    }
}
