//! All metrics. Only this module and its parts name them.
//!
//! Each metric is declared once, as a [`Family`]; [`FAMILIES`] lists all of them.
//! The page and `docs/metrics.md` follow from the declarations.

mod applications;
mod family;
mod grpc;
mod label;
mod openmetrics;
mod page;
mod plugins;
mod process;
mod queue;
mod reload;
mod requests;
mod running;
mod sandbox;
mod series;
mod shares;
mod table;
mod timeouts;
mod values;

use std::{fmt, iter::once, sync::Arc, time::Instant};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};

use self::{
    applications::Applications,
    family::family,
    openmetrics::Exemplars,
    plugins::DefinedPlugins,
    queue::Queues,
    running::Running,
    series::{PluginSeries, Series},
};
pub use self::{
    applications::Cost,
    family::{Family, Kind},
    label::{Dimension, GRPC_SERVICE},
    plugins::PluginRecord,
    queue::{Queue, Waiting},
    reload::Configured,
    requests::Ended,
    sandbox::VolumeSpace,
    table::FAMILIES,
    values::{
        Contained, CpuMode, DiscoveryKind, Feature, GrpcCode, Kill, Method, Outcome, Phase,
        PluginState, Reload, RequestLimit, Shared, StreamFault, Timer, WatchError,
    },
};

const METADATA: Metadata<'static> = Metadata::new("argocd_cmp", Level::INFO, None);

/// All metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    /// The series of one plugin in [`PluginMetrics`], and those of no plugin elsewhere.
    series: Series,
    plugins: PluginSeries,
    defined: DefinedPlugins,
    queues: Queues,
    running: Running,
    applications: Applications,
    exemplars: Exemplars,
    /// `grpc_server_handling_seconds` is wanted.
    has_grpc_times: bool,
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
        let metrics = Self {
            series: Series::new(),
            plugins: PluginSeries::default(),
            defined: DefinedPlugins::default(),
            queues: Queues::default(),
            running: Running::default(),
            applications: Applications::default(),
            exemplars: Exemplars::default(),
            has_grpc_times: false,
        };
        metrics.initialise_reload();
        metrics.initialise_shares();
        metrics.initialise_process();
        metrics
    }

    /// Switches `grpc_server_handling_seconds` on or off.
    #[must_use]
    pub fn with_grpc_times(self, has_grpc_times: bool) -> Self {
        Self { has_grpc_times, ..self }
    }

    /// The text for Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.read_process();
        let now = Instant::now();
        let pages: Vec<_> = self.shown(now).map(|series| series.handle.render()).collect();
        page::joined(&pages, &FAMILIES) + &self.defined.page() + &self.applications.page(now)
    }

    /// The text in the format OpenMetrics, with traces as examples of durations.
    #[must_use]
    pub fn render_openmetrics(&self) -> String {
        self.exemplars.page(&self.render())
    }

    /// Folds samples into buckets. Call it every few seconds: each sample takes
    /// memory until then.
    pub fn upkeep(&self) {
        self.shown(Instant::now()).for_each(|series| series.handle.run_upkeep());
    }

    /// The metrics of a plugin. All counters and gauges exist from the start, because
    /// a rate needs the zero before the first event.
    #[must_use]
    pub fn plugin(&self, plugin: &str) -> PluginMetrics {
        let metrics = PluginMetrics { metrics: self.of(plugin), plugin: plugin.into() };
        metrics.initialise();
        metrics.initialise_grpc();
        self.applications.begin(&metrics.plugin);
        metrics
    }

    /// Metrics that record the series of a plugin, which is defined now.
    fn of(&self, plugin: &str) -> Self {
        Self { series: self.plugins.of(plugin), ..self.clone() }
    }

    fn shown(&self, now: Instant) -> impl Iterator<Item = Series> {
        once(self.series.clone()).chain(self.plugins.shown(now))
    }

    fn counter(&self, family: &Family, labels: &[Label]) -> Counter {
        self.series.recorder.register_counter(&key(family, labels), &METADATA)
    }

    fn gauge(&self, family: &Family, labels: &[Label]) -> Gauge {
        self.series.recorder.register_gauge(&key(family, labels), &METADATA)
    }

    fn histogram(&self, family: &Family, labels: &[Label]) -> Histogram {
        self.series.recorder.register_histogram(&key(family, labels), &METADATA)
    }

    fn flag(&self, family: &Family, labels: &[Label], set: bool) {
        self.gauge(family, labels).set(f64::from(u8::from(set)));
    }

    fn amount(&self, family: &Family, labels: &[Label], amount: u64) {
        self.gauge(family, labels).set(rounded(amount));
    }
}

/// A value for Prometheus; exact up to 53 bits, as counts and hashes are.
#[expect(clippy::cast_precision_loss, reason = "a larger amount need not be exact")]
fn rounded(amount: u64) -> f64 {
    amount as f64
}

/// The key of a series.
fn key(family: &Family, labels: &[Label]) -> Key {
    let is_listed = || FAMILIES.iter().any(|listed| listed.name == family.name);
    debug_assert!(is_listed(), "{} is not in FAMILIES", family.name);
    debug_assert!(
        labels.iter().map(Label::key).eq(family.labels.iter().map(|label| label.name())),
        "{}: {labels:?}",
        family.name
    );
    Key::from_parts(family.name, labels.to_vec())
}

impl PluginMetrics {
    fn label(&self) -> Label {
        Label::new("plugin", Arc::clone(&self.plugin))
    }

    fn of(&self, method: Method) -> [Label; 2] {
        [self.label(), Dimension::Method.is(method.as_str())]
    }
}
