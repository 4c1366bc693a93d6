//! Counts calls that are refused before they are requests: nothing else tells of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::Response;
use tonic::{Code, Status};
use tracing::warn;

use super::warning_pause::WarningPause;
use crate::{
    metrics::{GRPC_SERVICE, PluginMetrics},
    plugin::PluginName,
};

/// Characters of a call's path that a warning repeats.
const MAX_PATH: usize = 200;

/// The refused calls of one plugin. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Refusals {
    plugin: PluginName,
    metrics: PluginMetrics,
    warning_pause: WarningPause,
}

/// Tells whether a call is a request, which is counted and logged itself. Clones are of the
/// same call.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached(Arc<AtomicBool>);

impl Reached {
    /// The call is a request.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Refusals {
    pub(super) fn new(plugin: &PluginName, metrics: PluginMetrics) -> Self {
        Self { plugin: plugin.clone(), metrics, warning_pause: WarningPause::default() }
    }

    /// Counts a call without room. It has a warning of its own.
    pub(super) fn count(&self) {
        self.metrics.call_refused();
    }

    /// Counts a call that tonic refused. Errors of health, version and reflection are none,
    /// unless they have no such method, and an unknown error is that of a client that is gone.
    pub(super) fn examine<B>(&self, path: &str, reached: &Reached, answer: &Response<B>) {
        let Some(status) = Status::from_header_map(answer.headers()) else { return };
        let is_ours = path.strip_prefix('/').is_some_and(|path| path.starts_with(GRPC_SERVICE));
        let is_error = !matches!(status.code(), Code::Ok | Code::Unknown);
        let is_refused = status.code() == Code::Unimplemented || (is_ours && is_error);
        if !is_refused || reached.0.load(Ordering::Relaxed) {
            return;
        }
        self.count();
        if self.warning_pause.is_over() {
            warn!(
                plugin = self.plugin.as_str(),
                grpc.code = ?status.code(),
                path = path.chars().take(MAX_PATH).collect::<String>(),
                error = status.message(),
                "a call that is no request was refused: another client than Argo CD's, or another \
                 version of it, uses the plugin's socket"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn only_calls_that_are_no_requests_are_refused() {
        let metrics = Metrics::new();
        let refusals = Refusals::new(&PluginName::new("p", "").unwrap(), metrics.plugin("p"));
        let requests = Reached::default();
        requests.set();
        for (path, reached, code, all) in [
            ("/plugin.ConfigManagementPluginService/Future", Reached::default(), "12", 1),
            ("/other.Service/Any", Reached::default(), "12", 2),
            ("/plugin.ConfigManagementPluginService/Check", Reached::default(), "13", 3),
            ("/plugin.ConfigManagementPluginService/Check", requests, "13", 3),
            ("/plugin.ConfigManagementPluginService/Check", Reached::default(), "2", 3),
            ("/grpc.health.v1.Health/Check", Reached::default(), "5", 3),
            ("/grpc.health.v1.Health/Check", Reached::default(), "0", 3),
        ] {
            let answer = Response::builder().header("grpc-status", code).body(()).unwrap();
            refusals.examine(path, &reached, &answer);
            let sample = format!("argocd_cmp_calls_refused_total{{plugin=\"p\"}} {all}");
            assert!(metrics.render().lines().any(|line| line == sample), "{path} {code}");
        }
    }
}
