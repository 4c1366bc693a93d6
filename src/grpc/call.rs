//! One call, from its first byte to its log line.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cmp_sandbox::Redactor;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, metadata::MetadataMap};
use tracing::{Span, field::Empty, info, info_span, warn};

use super::status::{Account, CallError};
use crate::{
    event::{self, Event, PhaseTime, TOLD},
    metrics::{Method, Outcome, PluginMetrics},
    plugin::PluginDefinition,
    request::{Deadline, Progress, RequestContext, RequestHeader},
};

/// A running call. It is counted and logged in every case, even if it is
/// dropped because the client disconnected.
pub(super) struct Call {
    pub(super) context: RequestContext,
    method: Method,
    metrics: PluginMetrics,
    span: Span,
    /// Argo CD's name of the application, once it is known.
    application: Option<String>,
    /// Cancelled when the supervisor cuts off all requests.
    cut_off: CancellationToken,
    settled: bool,
}

impl Call {
    /// Begins a call with the definition of its connection.
    pub(super) fn begin<T>(
        method: Method,
        metrics: PluginMetrics,
        request: &Request<T>,
        cut_off: CancellationToken,
    ) -> Result<Self, Status> {
        let pinned = request.extensions().get::<Arc<PluginDefinition>>();
        let plugin = pinned.ok_or_else(|| Status::internal("a connection without a plugin"))?;
        let granted = timeout(request.metadata());
        metrics.begun(method);
        Ok(Self {
            span: span(plugin, method),
            context: RequestContext {
                plugin: Arc::clone(plugin),
                redactor: Arc::default(),
                deadline: Deadline::new(granted, plugin.limits.timeout),
                progress: Progress::new(metrics.clone()),
            },
            method,
            metrics,
            application: None,
            cut_off,
            settled: false,
        })
    }

    /// The tracing span for all log lines of this call.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Sets the application's name from the header, and the secrets that texts
    /// must not show: those of `sidecar` and those of the request.
    pub(super) fn identify(&mut self, header: &RequestHeader, sidecar: &Redactor) {
        let variables = header.environment.iter().map(AsRef::as_ref);
        self.context.redactor = Arc::new(sidecar.with(variables));
        let application = header.application_name();
        self.span.record("app", application.as_ref());
        self.application = Some(application.chars().take(MAX_NAME).collect());
    }

    /// Names the request that a text is about.
    fn description(&self) -> String {
        let RequestContext { plugin, progress, .. } = &self.context;
        let mut parts = vec![format!("plugin {}", plugin.name)];
        parts.extend(self.application.iter().map(|name| format!("application {name}")));
        parts.extend(progress.phase().map(|phase| format!("phase {}", phase.as_str())));
        parts.join(", ")
    }

    /// Counts and logs the call, and returns the answer for the client.
    pub(super) fn end<T>(mut self, result: Result<(T, Outcome), CallError>) -> Result<T, Status> {
        match result {
            Ok((answer, outcome)) => {
                self.settle(Account { outcome, clock: None }, None);
                Ok(answer)
            }
            Err(failure) => {
                let (redactor, about) = (&self.context.redactor, self.description());
                let status = failure.status(self.method, redactor, &about);
                self.settle(failure.account(), Some(status.message()));
                Err(status)
            }
        }
    }

    fn settle(&mut self, account: Account, error: Option<&str>) {
        self.settled = true;
        let failed_in = self.context.progress.phase().map_or("open", |phase| phase.as_str());
        self.context.progress.finish();
        self.count(account, failed_in);
        let _entered = self.span.enter();
        let RequestContext { deadline, progress, .. } = &self.context;
        let took = milliseconds(deadline.elapsed());
        let phases = phases(progress);
        let (outcome, received, uid) = (account.outcome.as_str(), progress.received, progress.uid);
        event::tell(|| self.event(account.outcome));
        match error {
            None => {
                let reason = progress.reason.as_deref();
                info!(outcome, took, phases, received, uid, reason, "request");
            }
            Some(error) => {
                warn!(target: TOLD, outcome, took, phases, received, uid, phase = failed_in, error, "request");
            }
        }
    }

    fn event(&self, outcome: Outcome) -> Event {
        let RequestContext { plugin, deadline, progress, .. } = &self.context;
        let phases = progress.phases().iter();
        Event::Request {
            plugin: plugin.name.to_string(),
            method: self.method,
            outcome,
            took_ms: deadline.elapsed().as_secs_f64() * 1000.0,
            phases: phases
                .map(|(phase, took)| PhaseTime {
                    phase: *phase,
                    took_ms: took.as_secs_f64() * 1000.0,
                })
                .collect(),
            uid: progress.uid,
            reason: progress.reason.as_deref().map(Into::into),
        }
    }

    fn count(&self, account: Account, failed_in: &'static str) {
        let RequestContext { deadline, progress, .. } = &self.context;
        if let Some(clock) = account.clock {
            self.metrics.timed_out(self.method, failed_in, clock.as_str());
        }
        for (phase, took) in progress.phases() {
            self.metrics.phase(phase.as_str(), *took);
        }
        if progress.received > 0 {
            self.metrics.received(self.method, progress.received);
        }
        if let Some(ratio) = deadline.used() {
            self.metrics.deadline_used(self.method, ratio);
        }
        self.metrics.ended(self.method, account.outcome, deadline.elapsed());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.settled {
            let (outcome, reason) = if self.cut_off.is_cancelled() {
                (Outcome::Shutdown, "the supervisor stopped before the request ended")
            } else {
                (Outcome::ClientCancelled, "the client cancelled the call or went away")
            };
            self.settle(Account { outcome, clock: None }, Some(reason));
        }
    }
}

/// Longest application name in an error text, in characters. Kubernetes allows
/// no longer name, but a client may send one.
const MAX_NAME: usize = 253;

/// Numbers the calls, so that log lines of one call can be found.
static CALLS: AtomicU64 = AtomicU64::new(0);

fn span(plugin: &PluginDefinition, method: Method) -> Span {
    let id = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    info_span!("call", plugin = %plugin.name, method = method.as_str(), app = Empty, id)
}

/// Parses the client's `grpc-timeout`: at most eight digits and a unit.
fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_hours(amount)),
        "M" => Some(Duration::from_mins(amount)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

fn phases(progress: &Progress) -> String {
    let texts = progress
        .phases()
        .iter()
        .map(|(phase, took)| format!("{}={}", phase.as_str(), milliseconds(*took)));
    texts.collect::<Vec<_>>().join(" ")
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1}ms", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        for (text, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("59999m", Some(Duration::from_millis(59_999))),
            ("12345678n", Some(Duration::from_nanos(12_345_678))),
            ("1H", Some(Duration::from_hours(1))),
            ("123456789S", None),
            ("5", None),
            ("", None),
            ("xS", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(timeout(&metadata), expected, "{text}");
        }
    }
}
