//! The trace of one call.

use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{SdkTracer, Span},
};
use tonic::metadata::MetadataMap;

use super::Tracer;
use crate::metrics::{GRPC_SERVICE, GrpcCode, Method, Outcome, Phase};

/// The spans of a running call. A span that is dropped ends.
#[derive(Debug)]
pub struct Trace {
    tracer: SdkTracer,
    call: Context,
    phase: Option<Span>,
}

/// The headers of a call.
struct Headers<'m>(&'m MetadataMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        // Nobody asks for them: the propagator knows the names.
        Vec::new()
    }
}

impl Tracer {
    /// Begins the span of a call, below the client's if it has one.
    #[must_use]
    pub fn begin(
        &self,
        method: Method,
        headers: &MetadataMap,
        (plugin, request): (&str, &str),
    ) -> Option<Trace> {
        let tracer = self.0.clone()?;
        let headers = Headers(headers);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let span = tracer
            .span_builder(format!("{GRPC_SERVICE}/{}", method.full_name()))
            .with_kind(SpanKind::Server)
            .with_attributes([
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", GRPC_SERVICE),
                KeyValue::new("rpc.method", method.full_name()),
                KeyValue::new("cmp.plugin", plugin.to_owned()),
                KeyValue::new("cmp.request_id", request.to_owned()),
            ])
            .start_with_context(&tracer, &parent);
        Some(Trace { call: parent.with_span(span), tracer, phase: None })
    }
}

impl Trace {
    /// The ID of the trace, if a collector gets it.
    #[must_use]
    pub fn sampled_id(&self) -> Option<String> {
        self.call.span().span_context().is_sampled().then(|| self.id())
    }

    /// The ID of the trace, in hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        self.call.span().span_context().trace_id().to_string()
    }

    /// Begins the span of a phase, and ends the one before.
    pub fn enter(&mut self, phase: Phase) {
        self.leave();
        let name = match phase {
            Phase::Receive => "cmp.ReceiveRepoStream",
            Phase::Open
            | Phase::Queue
            | Phase::Init
            | Phase::Generate
            | Phase::Discover
            | Phase::Parameters
            | Phase::Split => phase.as_str(),
        };
        let span = self.tracer.span_builder(name);
        let span = span.with_attributes([KeyValue::new("cmp.phase", phase.as_str())]);
        self.phase = Some(span.start_with_context(&self.tracer, &self.call));
    }

    /// Ends the span of the phase.
    pub fn leave(&mut self) {
        if let Some(mut span) = self.phase.take() {
            span.end();
        }
    }

    /// The variable by which a command continues the trace. `program` is the command's
    /// first word.
    pub fn variable(&mut self, program: &str) -> String {
        let context = match &mut self.phase {
            Some(span) => {
                span.set_attribute(KeyValue::new("command", program.to_owned()));
                span.span_context().clone()
            }
            None => self.call.span().span_context().clone(),
        };
        format!("TRACEPARENT={}", parent(&context))
    }

    /// Ends the call.
    pub fn end(mut self, code: GrpcCode, outcome: Outcome, application: Option<&str>) {
        self.leave();
        let span = self.call.span();
        span.set_attribute(KeyValue::new("rpc.grpc.status_code", number(code)));
        span.set_attribute(KeyValue::new("cmp.outcome", outcome.as_str()));
        if let Some(name) = application {
            span.set_attribute(KeyValue::new("cmp.application", name.to_owned()));
        }
        if code != GrpcCode::Ok {
            // Error texts can hold what a tenant wrote, and are in the log.
            span.set_status(Status::error(outcome.as_str()));
        }
        span.end();
    }
}

/// The number of a status code in gRPC.
fn number(code: GrpcCode) -> i64 {
    match code {
        GrpcCode::Ok => 0,
        GrpcCode::Canceled => 1,
        GrpcCode::Unknown => 2,
        GrpcCode::DeadlineExceeded => 4,
        GrpcCode::ResourceExhausted => 8,
        GrpcCode::Internal => 13,
        GrpcCode::Unavailable => 14,
    }
}

/// The header of W3C Trace Context.
fn parent(context: &SpanContext) -> String {
    let (trace, span) = (context.trace_id(), context.span_id());
    format!("00-{trace}-{span}-{:02x}", context.trace_flags().to_u8())
}
