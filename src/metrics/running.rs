//! The requests that run or wait now, without a look at the series of all plugins.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    FAMILIES, Method, Metrics, PluginMetrics,
    page::{block, joined},
    requests::IN_FLIGHT,
};

/// Requests that have begun and not ended, by plugin and method; none without any. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Running(Arc<Mutex<Counts>>);

type Counts = BTreeMap<(Arc<str>, Method), u64>;

impl Running {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self) -> String {
        let counts = self.counts();
        let samples = counts.iter();
        let samples = samples.map(|((plugin, method), n)| (vec![&**plugin, method.as_str()], n));
        block(&IN_FLIGHT, samples)
    }
}

impl Metrics {
    /// The metrics of no plugin, and the numbers of requests that run or wait now, without
    /// zeros. A page that a browser follows needs them each second, and hundreds of idle
    /// plugins must not make it long.
    #[must_use]
    pub fn render_current(&self) -> String {
        let shared = joined(&[self.series.handle.render()], &FAMILIES);
        shared + &self.running.page() + &self.queues.page()
    }
}

impl PluginMetrics {
    pub(super) fn runs(&self, method: Method) {
        let key = (Arc::clone(&self.plugin), method);
        *self.metrics.running.counts().entry(key).or_default() += 1;
        self.metrics.gauge(&IN_FLIGHT, &self.of(method)).increment(1.0);
    }

    pub(super) fn has_run(&self, method: Method) {
        let key = (Arc::clone(&self.plugin), method);
        let mut counts = self.metrics.running.counts();
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
        self.metrics.gauge(&IN_FLIGHT, &self.of(method)).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_plugins_do_not_make_the_page_longer() {
        let metrics = Metrics::new();
        let before = metrics.render_current().lines().count();
        let plugins: Vec<_> = (0..50).map(|n| metrics.plugin(&format!("p{n}"))).collect();
        assert_eq!(metrics.render_current().lines().count(), before);
        plugins[1].runs(Method::Match);
        plugins[1].runs(Method::Match);
        plugins[1].has_run(Method::Match);
        let waiting = plugins[2].waits(Method::Generate);
        let page = metrics.render_current();
        assert_eq!(page.lines().count(), before + 2, "{page}");
        for line in [
            "argocd_cmp_requests_in_flight{plugin=\"p1\",method=\"match\"} 1\n",
            "argocd_cmp_requests_waiting{plugin=\"p2\"} 1\n",
        ] {
            assert!(page.contains(line) && metrics.render().contains(line), "{page}");
        }
        drop(waiting);
        plugins[1].has_run(Method::Match);
        assert_eq!(metrics.render_current().lines().count(), before);
    }
}
