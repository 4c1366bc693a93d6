//! All metrics. Only this module and its parts name them.

mod budget;
mod outcome;
mod queue;
mod reload;
mod sandbox;
mod tombstone;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use serde::{Deserialize, Serialize};

pub use self::outcome::Outcome;
pub use self::queue::{Queue, Waiting};
pub use self::reload::{Configured, PluginState, Reload, WatchError};
use self::tombstone::Tombstones;

/// Upper bounds for durations, in seconds. Rendering takes milliseconds to
/// minutes, and Argo CD's default deadline is 60 s.
const SECONDS: [f64; 18] = [
    0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0,
    180.0, 300.0,
];

/// Upper bounds for fractions of a deadline; narrow ones near 1.
const RATIOS: [f64; 8] = [0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 1.0];

/// Upper bounds for sizes, in bytes: 4 KiB to 1 GiB by powers of four.
const BYTES: [f64; 10] = [
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
];

const METADATA: Metadata<'static> = Metadata::new("argocd_cmp", Level::INFO, None);

const BUILD_INFO: &str = "argocd_cmp_build_info";
const PLUGIN_UP: &str = "argocd_cmp_plugin_up";
const REQUESTS: &str = "argocd_cmp_requests_total";
const REQUEST_DURATION: &str = "argocd_cmp_request_duration_seconds";
const PHASE_DURATION: &str = "argocd_cmp_request_phase_duration_seconds";
const IN_FLIGHT: &str = "argocd_cmp_requests_in_flight";
const RECEIVED: &str = "argocd_cmp_stream_received_bytes";
const TIMEOUTS: &str = "argocd_cmp_timeouts_total";
const DEADLINE_USED: &str = "argocd_cmp_request_deadline_used_ratio";
const EMPTY: &str = "argocd_cmp_empty_responses_total";
const ENCRYPTED: &str = "argocd_cmp_encrypted_manifests_total";

/// The method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `CheckPluginConfiguration`.
    Check,
    /// `MatchRepository`.
    Match,
    /// `GenerateManifest`.
    Generate,
    /// `GetParametersAnnouncement`.
    Parameters,
}

impl Method {
    pub(crate) const ALL: [Self; 4] = [Self::Check, Self::Match, Self::Generate, Self::Parameters];

    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Match => "match",
            Self::Generate => "generate",
            Self::Parameters => "parameters",
        }
    }
}

/// All metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    gone: Tombstones,
    queues: queue::Queues,
}

/// The metrics of one plugin. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PluginMetrics {
    metrics: Metrics,
    plugin: Arc<str>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates the metrics, all at zero.
    #[must_use]
    pub fn new() -> Self {
        let recorder = Arc::new(with_buckets(PrometheusBuilder::new()).build_recorder());
        let (gone, queues) = (Tombstones::default(), queue::Queues::default());
        let metrics = Self { handle: recorder.handle(), recorder, gone, queues };
        metrics.describe();
        let build = [Label::new("version", env!("CARGO_PKG_VERSION"))];
        metrics.gauge(BUILD_INFO, &build).set(1.0);
        metrics.initialise_reload();
        metrics
    }

    /// The text for Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.gone.hide(self.handle.render(), Instant::now())
    }

    /// Folds samples into buckets. Call it every few seconds: each sample takes
    /// memory until then.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Sets whether the plugin's socket answers and its programs exist.
    pub fn plugin_up(&self, plugin: &str, up: bool) {
        let label = Label::new("plugin", plugin.to_owned());
        self.gauge(PLUGIN_UP, &[label]).set(f64::from(u8::from(up)));
    }

    /// The metrics of a plugin. All exist from the start, because a rate needs the
    /// zero before the first event.
    #[must_use]
    pub fn plugin(&self, plugin: &str) -> PluginMetrics {
        self.gone.remove(plugin);
        let metrics = PluginMetrics { metrics: self.clone(), plugin: plugin.into() };
        metrics.initialise();
        metrics
    }

    fn counter(&self, name: &'static str, labels: &[Label]) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels.to_vec()), &METADATA)
    }

    fn gauge(&self, name: &'static str, labels: &[Label]) -> Gauge {
        self.recorder.register_gauge(&Key::from_parts(name, labels.to_vec()), &METADATA)
    }

    fn histogram(&self, name: &'static str, labels: &[Label]) -> Histogram {
        self.recorder.register_histogram(&Key::from_parts(name, labels.to_vec()), &METADATA)
    }

    fn describe(&self) {
        self.describe_gauge(BUILD_INFO, "Version of this program; always 1.");
        self.describe_gauge(PLUGIN_UP, "1 if the plugin's socket answers and its programs exist.");
        self.describe_counter(REQUESTS, "Requests that ended, by outcome.");
        self.describe_seconds(REQUEST_DURATION, "Time from a request's start to its answer.");
        self.describe_seconds(PHASE_DURATION, "Time in each phase of a request.");
        self.describe_gauge(IN_FLIGHT, "Requests that are running or waiting.");
        let received = "Compressed size of archives.";
        self.recorder.describe_histogram(RECEIVED.into(), Some(Unit::Bytes), received.into());
        self.describe_counter(
            TIMEOUTS,
            "Requests ended by a deadline or timeout, by kind and phase.",
        );
        let used = "Fraction of its deadline that a request used.";
        self.recorder.describe_histogram(DEADLINE_USED.into(), None, used.into());
        self.describe_counter(
            EMPTY,
            "Answers without a manifest; with pruning, resources are deleted.",
        );
        self.describe_counter(
            ENCRYPTED,
            "Manifests with values that are still encrypted, or with placeholders.",
        );
        self.describe_reload();
        self.describe_budget();
        self.describe_queue();
        self.describe_sandbox();
    }

    fn describe_gauge(&self, name: &'static str, text: &'static str) {
        self.recorder.describe_gauge(name.into(), None, text.into());
    }

    fn describe_counter(&self, name: &'static str, text: &'static str) {
        self.recorder.describe_counter(name.into(), None, text.into());
    }

    fn describe_seconds(&self, name: &'static str, text: &'static str) {
        self.recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
    }
}

fn with_buckets(builder: PrometheusBuilder) -> PrometheusBuilder {
    let suffix = |text: &str| Matcher::Suffix(text.to_owned());
    builder
        .set_buckets_for_metric(suffix("_seconds"), &SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(suffix("_bytes"), &BYTES))
        .and_then(|builder| builder.set_buckets_for_metric(suffix("_ratio"), &RATIOS))
        // This fails only for an empty list of bounds.
        .unwrap_or_default()
}

impl PluginMetrics {
    /// Counts a request that began.
    pub fn begun(&self, method: Method) {
        self.in_flight(method).increment(1.0);
    }

    /// Counts a request that ended.
    pub fn ended(&self, method: Method, outcome: Outcome, took: Duration) {
        self.in_flight(method).decrement(1.0);
        self.requests(method, outcome).increment(1);
        self.metrics.histogram(REQUEST_DURATION, &self.of(method)).record(took);
    }

    /// Records the fraction of its deadline that a request used.
    pub fn deadline_used(&self, method: Method, ratio: f64) {
        self.metrics.histogram(DEADLINE_USED, &self.of(method)).record(ratio);
    }

    /// Counts a successful answer without a manifest.
    pub fn empty(&self) {
        self.metrics.counter(EMPTY, &[self.label()]).increment(1);
    }

    /// Counts manifests that are still encrypted.
    pub fn encrypted(&self, manifests: u64) {
        self.metrics.counter(ENCRYPTED, &[self.label()]).increment(manifests);
    }

    /// Records the duration of a request's phase.
    pub fn phase(&self, phase: &'static str, took: Duration) {
        let labels = [self.label(), Label::new("phase", phase)];
        self.metrics.histogram(PHASE_DURATION, &labels).record(took);
    }

    /// Records the size of an archive.
    #[expect(clippy::cast_precision_loss, reason = "a histogram need not be exact")]
    pub fn received(&self, method: Method, bytes: u64) {
        self.metrics.histogram(RECEIVED, &self.of(method)).record(bytes as f64);
    }

    /// Counts a request that was ended by a deadline or timeout.
    pub fn timed_out(&self, method: Method, phase: &'static str, clock: &'static str) {
        let [plugin, method] = self.of(method);
        let labels = [plugin, method, Label::new("phase", phase), Label::new("kind", clock)];
        self.metrics.counter(TIMEOUTS, &labels).increment(1);
    }

    fn initialise(&self) {
        self.metrics.gauge(PLUGIN_UP, &[self.label()]).increment(0.0);
        self.metrics.counter(EMPTY, &[self.label()]).absolute(0);
        self.metrics.counter(ENCRYPTED, &[self.label()]).absolute(0);
        self.waiting().increment(0.0);
        for method in Method::ALL {
            self.in_flight(method).increment(0.0);
            for outcome in Outcome::ALL {
                self.requests(method, outcome).absolute(0);
            }
        }
    }

    fn in_flight(&self, method: Method) -> Gauge {
        self.metrics.gauge(IN_FLIGHT, &self.of(method))
    }

    fn requests(&self, method: Method, outcome: Outcome) -> Counter {
        let [plugin, method] = self.of(method);
        let outcome = Label::new("outcome", outcome.as_str());
        self.metrics.counter(REQUESTS, &[plugin, method, outcome])
    }

    fn label(&self) -> Label {
        Label::new("plugin", Arc::clone(&self.plugin))
    }

    fn of(&self, method: Method) -> [Label; 2] {
        [self.label(), Label::new("method", method.as_str())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_starts_at_zero() {
        let metrics = Metrics::new();
        let _plugin = metrics.plugin("helm-v1");
        let page = metrics.render();
        let line =
            r#"argocd_cmp_requests_total{plugin="helm-v1",method="generate",outcome="deadline"} 0"#;
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn a_request_is_counted_once() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        plugin.begun(Method::Match);
        plugin.ended(Method::Match, Outcome::NoMatch, Duration::from_millis(30));
        let page = metrics.render();
        for line in [
            r#"argocd_cmp_requests_total{plugin="p",method="match",outcome="no_match"} 1"#,
            r#"argocd_cmp_requests_in_flight{plugin="p",method="match"} 0"#,
            r#"argocd_cmp_request_duration_seconds_bucket{plugin="p",method="match",le="0.05"} 1"#,
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }

    #[test]
    fn encrypted_manifests_are_counted() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        let count = r#"argocd_cmp_encrypted_manifests_total{plugin="p"} "#;
        assert!(metrics.render().contains(&format!("{count}0")));
        plugin.encrypted(2);
        assert!(metrics.render().contains(&format!("{count}2")));
    }

    #[test]
    fn sizes_have_their_own_bounds() {
        let metrics = Metrics::new();
        metrics.plugin("p").received(Method::Generate, 5000);
        let line =
            r#"argocd_cmp_stream_received_bytes_bucket{plugin="p",method="generate",le="16384"} 1"#;
        assert!(metrics.render().contains(line));
    }
}
