//! The series of each plugin, and their removal.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::{FAMILIES, Kind};

/// Time for which a removed plugin's series are still shown, so that some more
/// scrapes read its last requests.
const SHOWN: Duration = Duration::from_mins(5);

/// Most removed plugins that are shown; the first one that was removed goes first. All
/// definitions of a directory can be replaced at once.
const MOST_GONE: usize = 100;

/// Series that are removed together, because a recorder cannot delete single ones.
/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Series {
    pub(super) recorder: Arc<PrometheusRecorder>,
    pub(super) handle: PrometheusHandle,
}

/// The series of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct PluginSeries(Arc<Mutex<BTreeMap<String, Entry>>>);

struct Entry {
    series: Series,
    /// The time when the plugin was removed.
    gone: Option<Instant>,
}

impl Series {
    pub(super) fn new() -> Self {
        let recorder = Arc::new(with_buckets(PrometheusBuilder::new()).build_recorder());
        Self { handle: recorder.handle(), recorder }
    }
}

impl PluginSeries {
    /// The series of a plugin, which is defined now.
    pub(super) fn of(&self, plugin: &str) -> Series {
        let mut all = self.all();
        let new = || Entry { series: Series::new(), gone: None };
        let entry = all.entry(plugin.to_owned()).or_insert_with(new);
        entry.gone = None;
        entry.series.clone()
    }

    /// Removes a plugin's series after [`SHOWN`], unless the plugin returns, or when
    /// [`MOST_GONE`] others are removed.
    pub(super) fn end(&self, plugin: &str, now: Instant) {
        let mut all = self.all();
        if let Some(entry) = all.get_mut(plugin) {
            entry.gone = Some(now);
        }
        let gone = all.iter().filter_map(|(plugin, entry)| Some((entry.gone?, plugin.clone())));
        let gone: Vec<_> = gone.collect();
        if gone.len() > MOST_GONE
            && let Some((_, first)) = gone.into_iter().min()
        {
            all.remove(&first);
        }
    }

    /// The plugins that were not removed.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let all = self.all();
        let here = all.iter().filter(|(_, entry)| entry.gone.is_none());
        here.map(|(plugin, _)| plugin.clone()).collect()
    }

    /// True for a removed plugin.
    pub(super) fn is_gone(&self, plugin: &str) -> bool {
        self.all().get(plugin).is_none_or(|entry| entry.gone.is_some())
    }

    /// All series, without those of plugins that were removed long ago.
    pub(super) fn shown(&self, now: Instant) -> Vec<Series> {
        let mut all = self.all();
        let is_recent = |gone| now.saturating_duration_since(gone) < SHOWN;
        all.retain(|_, entry| entry.gone.is_none_or(is_recent));
        all.values().map(|entry| entry.series.clone()).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn with_buckets(builder: PrometheusBuilder) -> PrometheusBuilder {
    FAMILIES.iter().fold(builder, |builder, family| match family.kind {
        Kind::Histogram(bounds) => {
            let matcher = Matcher::Full(family.name.to_owned());
            // This fails only for an empty list of bounds.
            builder.set_buckets_for_metric(matcher, bounds).unwrap_or_default()
        }
        Kind::Counter | Kind::SecondsCounter | Kind::Gauge => builder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_removed_plugin_are_dropped_after_five_minutes() {
        let (all, start) = (PluginSeries::default(), Instant::now());
        let recorder = Arc::downgrade(&all.of("gone").recorder);
        drop(all.of("here"));
        all.end("gone", start);
        assert_eq!(all.shown(start + SHOWN / 2).len(), 2);
        assert_eq!(all.shown(start + SHOWN).len(), 1);
        assert!(recorder.upgrade().is_none() && all.is_gone("gone") && !all.is_gone("here"));
    }

    #[test]
    fn only_the_last_removed_plugins_are_shown() {
        let (all, start) = (PluginSeries::default(), Instant::now());
        drop(all.of("here"));
        for number in 0..MOST_GONE + 20 {
            let name = format!("p{number}");
            drop(all.of(&name));
            all.end(&name, start + Duration::from_millis(number as u64));
        }
        assert_eq!(all.shown(start).len(), 1 + MOST_GONE);
        let names: Vec<_> = all.0.lock().unwrap().keys().cloned().collect();
        assert!(names.contains(&"p20".to_owned()) && !names.contains(&"p19".to_owned()));
    }

    #[test]
    fn a_plugin_that_returns_keeps_its_series() {
        let (all, start) = (PluginSeries::default(), Instant::now());
        let before = all.of("a");
        all.end("a", start);
        assert!(all.is_gone("a"));
        assert!(Arc::ptr_eq(&before.recorder, &all.of("a").recorder) && !all.is_gone("a"));
        assert_eq!(all.shown(start + SHOWN).len(), 1);
    }
}
