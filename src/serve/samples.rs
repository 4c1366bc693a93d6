//! The samples of the metrics, which take memory until they are in buckets.

use std::time::Duration;

use tokio::time::interval;

use crate::metrics::Metrics;

/// Time for which a sample is kept as it is.
const INTERVAL: Duration = Duration::from_secs(5);

/// Folds samples into buckets until the runtime ends: with or without an HTTP server, and
/// while requests drain.
pub(super) async fn fold(metrics: Metrics) {
    let mut ticks = interval(INTERVAL);
    loop {
        ticks.tick().await;
        metrics.upkeep();
    }
}
