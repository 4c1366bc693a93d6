//! Metrics of gRPC with the names of go-grpc-middleware, for stock dashboards.

use std::time::Duration;

use metrics::Label;

use super::{
    Dimension, Family, GrpcCode, Kind, Method, PluginMetrics, family, family::SECONDS,
    label::GRPC_SERVICE,
};

pub(super) static STARTED: Family = family(
    ("grpc_server_started_total", Kind::Counter),
    &[Dimension::Plugin, Dimension::GrpcType, Dimension::GrpcService, Dimension::GrpcMethod],
    "Calls that began.",
);
pub(super) static HANDLED: Family = family(
    ("grpc_server_handled_total", Kind::Counter),
    &[
        Dimension::Plugin,
        Dimension::GrpcType,
        Dimension::GrpcService,
        Dimension::GrpcMethod,
        Dimension::GrpcCode,
    ],
    "Calls that ended, by status code.",
);
pub(super) static HANDLING: Family = family(
    ("grpc_server_handling_seconds", SECONDS),
    &[Dimension::Plugin, Dimension::GrpcType, Dimension::GrpcService, Dimension::GrpcMethod],
    "Duration of calls; only with ARGOCD_ENABLE_GRPC_TIME_HISTOGRAM=true, as in Argo CD.",
);

pub(super) static REFUSED: Family = family(
    ("argocd_cmp_calls_refused_total", Kind::Counter),
    &[Dimension::Plugin],
    "Calls that were refused before they were requests: no such method, an unreadable message, or too many open calls.",
);

impl PluginMetrics {
    /// Counts a call that was refused before it was a request.
    pub fn call_refused(&self) {
        self.metrics.counter(&REFUSED, &[self.label()]).increment(1);
    }

    pub(super) fn grpc_started(&self, method: Method) {
        self.metrics.counter(&STARTED, &self.grpc(method)).increment(1);
    }

    /// Counts a call that was answered with a status code.
    pub fn grpc_handled(&self, method: Method, code: GrpcCode, took: Duration) {
        self.metrics.counter(&HANDLED, &self.grpc_code(method, code)).increment(1);
        if self.metrics.has_grpc_times {
            self.metrics.histogram(&HANDLING, &self.grpc(method)).record(took);
        }
    }

    pub(super) fn initialise_grpc(&self) {
        self.metrics.counter(&REFUSED, &[self.label()]).absolute(0);
        for method in Method::ALL {
            self.metrics.counter(&STARTED, &self.grpc(*method)).absolute(0);
            for code in GrpcCode::ALL {
                self.metrics.counter(&HANDLED, &self.grpc_code(*method, *code)).absolute(0);
            }
        }
    }

    fn grpc(&self, method: Method) -> [Label; 4] {
        [
            self.label(),
            Dimension::GrpcType.is(method.grpc_type()),
            Dimension::GrpcService.is(GRPC_SERVICE),
            Dimension::GrpcMethod.is(method.full_name()),
        ]
    }

    fn grpc_code(&self, method: Method, code: GrpcCode) -> [Label; 5] {
        let [plugin, kind, service, method] = self.grpc(method);
        [plugin, kind, service, method, Dimension::GrpcCode.is(code.as_str())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn durations_of_calls_are_shown_only_if_they_are_wanted() {
        for wanted in [false, true] {
            let metrics = Metrics::new().with_grpc_times(wanted);
            let plugin = metrics.plugin("p");
            plugin.begun(Method::Check);
            plugin.grpc_handled(Method::Check, GrpcCode::Ok, Duration::from_millis(1));
            let page = metrics.render();
            assert!(page.contains(r#"grpc_method="CheckPluginConfiguration",grpc_code="OK"} 1"#));
            assert_eq!(page.contains("grpc_server_handling_seconds_count"), wanted, "{page}");
        }
    }
}
