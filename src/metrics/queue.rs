//! Metrics of requests that wait for a place, and their number for `/plugins`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use metrics::Gauge;

use super::{
    Dimension, Family, Kind, Method, Metrics, PluginMetrics, family, family::SECONDS, page::block,
};

pub(super) static WAITING: Family = family(
    ("argocd_cmp_requests_waiting", Kind::Gauge),
    &[Dimension::Plugin],
    "Requests that wait for a place, or for space on the work volume.",
);
pub(super) static WAITED: Family = family(
    ("argocd_cmp_request_queue_duration_seconds", SECONDS),
    &[Dimension::Plugin, Dimension::Method],
    "Time for which requests waited, unless they were rejected; sum and count rise when a wait ends.",
);

/// Requests that wait now, by plugin: the number of each and its arrival. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues(Arc<Mutex<Arrivals>>);

#[derive(Debug, Default)]
struct Arrivals {
    last: u64,
    plugins: HashMap<Arc<str>, BTreeMap<u64, Instant>>,
}

/// The requests of a plugin that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Number of requests.
    pub waiting: usize,
    /// Time for which the first of them has waited.
    pub longest: Duration,
}

/// A request that waits. Dropping it ends the wait.
#[derive(Debug)]
pub struct Waiting {
    metrics: PluginMetrics,
    method: Method,
    number: u64,
    /// Its begin; `None` if it was refused.
    since: Option<Instant>,
}

impl Queues {
    fn enter(&self, plugin: &Arc<str>, now: Instant) -> u64 {
        let mut all = self.all();
        all.last += 1;
        let number = all.last;
        all.plugins.entry(Arc::clone(plugin)).or_default().insert(number, now);
        number
    }

    fn leave(&self, plugin: &Arc<str>, number: u64) {
        let mut all = self.all();
        if let Some(waiting) = all.plugins.get_mut(plugin) {
            waiting.remove(&number);
            if waiting.is_empty() {
                all.plugins.remove(plugin);
            }
        }
    }

    pub(super) fn page(&self) -> String {
        let all = self.all();
        let plugins: BTreeMap<_, _> = all.plugins.iter().map(|(p, a)| (p, a.len())).collect();
        block(&WAITING, plugins.into_iter().map(|(plugin, waiting)| (vec![&**plugin], waiting)))
    }

    fn of(&self, plugin: &str, now: Instant) -> Option<Queue> {
        let all = self.all();
        let arrivals = all.plugins.get(plugin)?;
        let (_, first) = arrivals.first_key_value()?;
        let longest = now.saturating_duration_since(*first);
        Some(Queue { waiting: arrivals.len(), longest })
    }

    fn all(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    /// The plugin's requests that wait now; `None` if none does.
    #[must_use]
    pub fn queue(&self, plugin: &str) -> Option<Queue> {
        self.queues.of(plugin, Instant::now())
    }

    /// True if a request of any plugin waits now.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        !self.queues.all().plugins.is_empty()
    }
}

impl PluginMetrics {
    /// Counts a request that begins to wait.
    #[must_use]
    pub fn waits(&self, method: Method) -> Waiting {
        let (metrics, since) = (self.clone(), Instant::now());
        let number = metrics.metrics.queues.enter(&metrics.plugin, since);
        metrics.waiting().increment(1.0);
        Waiting { metrics, method, number, since: Some(since) }
    }

    fn waiting(&self) -> Gauge {
        self.metrics.gauge(&WAITING, &[self.label()])
    }
}

impl Waiting {
    /// Ends a wait for which there was no room, and which is none. Counted, such waits of no
    /// time would hide those of all others.
    pub(crate) fn refuse(mut self) {
        self.since = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let PluginMetrics { metrics, plugin } = &self.metrics;
        metrics.queues.leave(plugin, self.number);
        self.metrics.waiting().decrement(1.0);
        if let Some(since) = self.since {
            metrics.histogram(&WAITED, &self.metrics.of(self.method)).record(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_request_is_counted_until_its_wait_ends() {
        let metrics = Metrics::new();
        let (one, other) = (metrics.plugin("one"), metrics.plugin("other"));
        let has = |line: &str| metrics.render().lines().any(|shown| shown == line);
        assert!(has(r#"argocd_cmp_requests_waiting{plugin="one"} 0"#));
        let (first, second) = (one.waits(Method::Generate), one.waits(Method::Match));
        let _third = other.waits(Method::Generate);
        assert!(has(r#"argocd_cmp_requests_waiting{plugin="one"} 2"#));
        assert_eq!(metrics.queue("one").map(|queue| queue.waiting), Some(2));
        let first_since = first.since.unwrap();
        let soon = first_since + Duration::from_mins(1);
        let longest = |queues: &Queues| queues.of("one", soon).map(|queue| queue.longest);
        assert_eq!(longest(&metrics.queues), Some(Duration::from_mins(1)));
        drop(first);
        assert!(longest(&metrics.queues) <= Some(Duration::from_mins(1)));
        drop(second);
        one.waits(Method::Match).refuse();
        assert_eq!(metrics.queue("one"), None);
        assert!(has(r#"argocd_cmp_requests_waiting{plugin="one"} 0"#));
        assert!(has(r#"argocd_cmp_requests_waiting{plugin="other"} 1"#));
        for method in ["generate", "match"] {
            let count = "argocd_cmp_request_queue_duration_seconds_count";
            assert!(has(&format!(r#"{count}{{plugin="one",method="{method}"}} 1"#)), "{method}");
        }
    }
}
