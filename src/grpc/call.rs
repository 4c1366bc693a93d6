//! One call, from its first byte to its log line.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use cmp_sandbox::{Redactor, Unpacked};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};
use tracing::{Span, debug, error_span, field::Empty, info, warn};

use super::{
    account::{self, Account},
    backend::{Backend, Recorders},
    call_error::CallError,
    cost, observed,
    refusals::Reached,
    request_id,
    timeout::timeout,
    warning_pause::WarningPause,
};
use crate::{
    bundle::Failed,
    event::{self, Event, PhaseTime, TOLD},
    metrics::{Ended, GrpcCode, Kill, Method, Outcome, Phase, PluginMetrics},
    plugin::PluginDefinition,
    recent::{Details, Entry},
    request::{
        Deadline, DeadlinePassed, Progress, RequestContext, RequestHeader,
        admission::NewestDefinition,
    },
    timestamp::displayable,
    traces::Trace,
};

/// The definitions that the calls of one connection use.
#[derive(Clone, Debug)]
pub(super) struct Definitions {
    /// The one with which it was accepted.
    pub(super) pinned: Arc<PluginDefinition>,
    pub(super) newest: NewestDefinition,
    /// The last warning of calls that their clients cancel at once.
    pub(super) resets: WarningPause,
}

/// A running call. It is counted and logged in every case, even if it is
/// dropped because the client disconnected.
pub(super) struct Call {
    pub(super) context: RequestContext,
    method: Method,
    metrics: PluginMetrics,
    recorders: Recorders,
    resets: WarningPause,
    span: Span,
    id: String,
    began: SystemTime,
    /// Argo CD's name of the application, once it is known.
    application: Option<String>,
    /// Cancelled when the supervisor cuts off all requests.
    cut_off: CancellationToken,
    settled: bool,
}

/// The end of a call.
struct End<'e> {
    account: Account,
    code: GrpcCode,
    /// The error, without secrets.
    error: Option<&'e str>,
}

impl End<'_> {
    /// True if the request itself failed. Of one whose client went away, nothing is known:
    /// its outputs are gone with it.
    fn is_failure(&self) -> bool {
        self.error.is_some() && self.account.outcome != Outcome::ClientCancelled
    }

    /// True if the client cancelled the call before its archive began. One client can do so
    /// thousands of times a second.
    fn is_reset(&self, last: Option<Phase>) -> bool {
        self.account.outcome == Outcome::ClientCancelled
            && last.is_none_or(|last| last == Phase::Open)
    }
}

impl Call {
    /// Begins a call with the definition of its connection.
    pub(super) fn begin<T>(
        method: Method,
        metrics: PluginMetrics,
        backend: &Backend,
        request: &Request<T>,
    ) -> Result<Self, Status> {
        let granted = timeout(request.metadata().as_ref());
        let granted = granted.map_err(|malformed| Status::internal(malformed.to_string()))?;
        if let Some(reached) = request.extensions().get::<Reached>() {
            reached.set();
        }
        let pinned = request.extensions().get::<Definitions>();
        let Definitions { pinned: plugin, newest, resets } =
            pinned.ok_or_else(|| Status::internal("a connection without a plugin"))?;
        let deadline = Deadline::new(granted, None);
        let is_cpu_limited = backend.pipeline.budget.borrow().processors.is_some();
        let deadline = if is_cpu_limited { deadline.with_throttling() } else { deadline };
        let recorders = backend.recorders.clone();
        metrics.begun(method);
        let evidence = recorders.keeper.evidence().filter(|_| method != Method::Check);
        let id = request_id::next();
        let mut progress = Progress::new(metrics.clone(), method, evidence);
        progress.trace =
            recorders.tracer.begin(method, request.metadata(), (plugin.name.as_str(), &id));
        if method != Method::Check {
            progress.enter(Phase::Open);
        }
        let span = span(plugin, method, &id);
        span.record("trace_id", progress.trace.as_ref().map(Trace::id));
        Ok(Self {
            span,
            context: RequestContext {
                plugin: Arc::clone(plugin),
                newest: newest.clone(),
                redactor: Arc::default(),
                deadline,
                progress,
            },
            method,
            metrics,
            recorders,
            resets: resets.clone(),
            id,
            began: SystemTime::now(),
            application: None,
            cut_off: backend.cut_off.clone(),
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
        if let Some(evidence) = &mut self.context.progress.evidence {
            let named = (&*header.directory, &*header.checksum);
            evidence.identify(named, &header.environment, &self.context.redactor);
        }
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
                let account = Account::plain(outcome);
                self.settle(End { account, code: GrpcCode::Ok, error: None });
                Ok(answer)
            }
            Err(mut failure) => {
                observed::tell_line(&mut failure, &self.context);
                let redactors = (&*self.context.redactor, self.context.at_cuts());
                let status = failure.status(self.method, redactors, &self.description());
                let (code, error) = (account::label(status.code()), Some(status.message()));
                self.settle(End { account: Account::of(&failure), code, error });
                Err(status)
            }
        }
    }

    /// Ends the call. A client whose deadline passes goes away too, before the answer if this
    /// process gets little of the processor.
    fn settle(&mut self, end: End<'_>) {
        self.settled = true;
        let RequestContext { deadline, progress, .. } = &self.context;
        if end.account.outcome != Outcome::ClientCancelled || !deadline.client_gives_up() {
            return self.record(end);
        }
        let account = Account::of_deadline(deadline, progress.runs_command());
        let late = DeadlinePassed(*deadline).to_string();
        self.record(End { account, code: GrpcCode::DeadlineExceeded, error: Some(&late) });
    }

    /// Counts and logs the end of the call.
    fn record(&mut self, mut end: End<'_>) {
        let progress = &mut self.context.progress;
        let kills = [
            (Outcome::ClientCancelled, Kill::ClientCancelled),
            (Outcome::Shutdown, Kill::Shutdown),
        ];
        let from_outside = kills.into_iter().find(|(outcome, _)| *outcome == end.account.outcome);
        let from_outside = from_outside.filter(|_| progress.runs_command());
        end.account.kill = end.account.kill.or(from_outside.map(|(_, kill)| kill));
        let last = progress.phase();
        progress.finish(end.account.outcome);
        if let Some(id) = progress.trace.as_ref().and_then(Trace::sampled_id) {
            self.metrics.exemplar(self.method, self.context.deadline.elapsed(), id);
        }
        if let Some(trace) = progress.trace.take() {
            trace.end(end.code, end.account.outcome, self.application.as_deref());
        }
        self.count(&end, last);
        cost::count(&self.metrics, self.application.as_deref(), &mut self.context.progress);
        observed::tell(&self.context);
        event::tell(|| self.event(end.account.outcome));
        // Argo CD asks for each application and plugin; this would fill the list.
        if self.method != Method::Check {
            self.recorders.recent.keep(|details| self.entry(&end, details));
        }
        self.log(&end, last);
        self.keep(&end);
    }

    /// Keeps a failed request. One that got no place is not kept: under load, such requests
    /// would replace all others. Neither is one that its client cancelled.
    fn keep(&mut self, end: &End<'_>) {
        let progress = &mut self.context.progress;
        let Some(evidence) = progress.evidence.take() else { return };
        if end.is_failure() && progress.received > 0 {
            let entry = self.entry(end, Details::Shown);
            self.recorders.keeper.keep(Failed { entry, evidence });
        }
    }

    fn log(&self, end: &End<'_>, last: Option<Phase>) {
        let _entered = self.span.enter();
        let RequestContext { deadline, progress, .. } = &self.context;
        let (outcome, code) = (end.account.outcome.as_str(), end.code.as_str());
        let (took_ms, received_bytes) = (milliseconds(deadline.elapsed()), progress.received);
        let ms = |phase| progress.time_in(phase).map(milliseconds);
        let (uid, reason) = (progress.uid, progress.reason.as_deref());
        let repository = progress.is_repository_shared.then_some("shared");
        let phase = end.error.and(last).map(Phase::as_str);
        macro_rules! line {
            ($log:ident, $($target:tt)*) => {
                $log!(
                    $($target)* outcome, grpc.code = code, took_ms,
                    open_ms = ms(Phase::Open), queue_ms = ms(Phase::Queue),
                    receive_ms = ms(Phase::Receive), init_ms = ms(Phase::Init),
                    generate_ms = ms(Phase::Generate), discover_ms = ms(Phase::Discover),
                    parameters_ms = ms(Phase::Parameters), split_ms = ms(Phase::Split),
                    received_bytes, uid, repository,
                    manifests = progress.manifests, reason, phase, error = end.error, "request"
                )
            };
        }
        if end.error.is_none() {
            line!(info,);
        } else if end.is_reset(last) && !self.resets.is_over() {
            line!(debug, target: TOLD,);
        } else {
            line!(warn, target: TOLD,);
        }
    }

    fn event(&self, outcome: Outcome) -> Event {
        let RequestContext { plugin, deadline, progress, .. } = &self.context;
        Event::Request {
            plugin: plugin.name.to_string(),
            method: self.method,
            outcome,
            took_ms: deadline.elapsed().as_secs_f64() * 1000.0,
            phases: phases(progress),
            uid: progress.uid,
            reason: progress.reason.as_deref().map(Into::into),
        }
    }

    fn entry(&self, end: &End<'_>, details: Details) -> Entry {
        let RequestContext { plugin, deadline, progress, .. } = &self.context;
        let is_told = details == Details::Shown;
        Entry {
            request_id: self.id.clone(),
            plugin: plugin.name.to_string(),
            method: self.method,
            outcome: end.account.outcome,
            grpc_code: end.code,
            began_at: humantime::format_rfc3339_millis(displayable(self.began)).to_string(),
            took_ms: milliseconds(deadline.elapsed()),
            phases: phases(progress),
            received_bytes: progress.received,
            peak_memory_bytes: Some(progress.peak_memory).filter(|bytes| *bytes > 0),
            limits_used: progress.limits_used().iter().copied().collect(),
            uid: progress.uid,
            timeout: end.account.clock,
            kill: end.account.kill,
            application: self.application.clone().filter(|_| is_told),
            error: end.error.filter(|_| is_told).map(Into::into),
        }
    }

    fn count(&self, end: &End<'_>, last: Option<Phase>) {
        let (method, metrics) = (self.method, &self.metrics);
        let RequestContext { deadline, progress, .. } = &self.context;
        for (phase, took) in progress.phases() {
            metrics.phase(*phase, *took);
        }
        if progress.received > 0 {
            metrics.received(method, progress.received);
        }
        if let Some(Unpacked { files, bytes, .. }) = progress.unpacked {
            metrics.unpacked(files, bytes);
        }
        for (limit, ratio) in progress.limits_used() {
            metrics.limit_used(*limit, *ratio);
        }
        let Account { outcome, clock, kill, fault, not_started } = end.account;
        metrics.grpc_handled(method, end.code, deadline.elapsed());
        metrics.ended(&Ended {
            method,
            outcome,
            took: deadline.elapsed(),
            timeout: last.zip(clock),
            kill,
            fault,
            not_started,
            deadline_used: deadline.used(),
        });
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.settled {
            let (outcome, code, reason) = if self.cut_off.is_cancelled() {
                let reason = "the supervisor stopped before the request ended";
                (Outcome::Shutdown, GrpcCode::Unavailable, reason)
            } else {
                let reason = "the client cancelled the call or went away";
                (Outcome::ClientCancelled, GrpcCode::Canceled, reason)
            };
            self.settle(End { account: Account::plain(outcome), code, error: Some(reason) });
        }
    }
}

/// Longest application name in an error text, in characters, as in Kubernetes.
const MAX_NAME: usize = 253;

fn span(plugin: &PluginDefinition, method: Method, id: &str) -> Span {
    // Lines of every level need its fields.
    error_span!(
        "call",
        plugin = %plugin.name,
        method = method.as_str(),
        grpc.method = method.full_name(),
        app = Empty,
        request_id = id,
        trace_id = Empty,
    )
}

fn phases(progress: &Progress) -> Vec<PhaseTime> {
    let phases = progress.phases().iter();
    phases.map(|(phase, took)| PhaseTime { phase: *phase, took_ms: milliseconds(*took) }).collect()
}

/// Milliseconds, to the precision that logs show.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_request_has_not_failed() {
        for (outcome, is_failure) in [
            (Outcome::ClientCancelled, false),
            (Outcome::Deadline, true),
            (Outcome::ExitNonzero, true),
        ] {
            let account = Account::plain(outcome);
            let end = End { account, code: GrpcCode::Unknown, error: Some("x") };
            assert_eq!(end.is_failure(), is_failure, "{outcome:?}");
            assert_eq!(end.is_reset(None), !is_failure, "{outcome:?}");
            assert!(!end.is_reset(Some(Phase::Receive)), "{outcome:?}");
        }
    }
}
