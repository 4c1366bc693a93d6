//! Traces: a span for each call and for each of its phases, sent to a collector.
//!
//! Names of spans, flags and variables are those of argocd-cmp-server. The client's
//! trace is continued, and commands can continue it by `TRACEPARENT`. A collector that
//! does not answer costs a warning: the queue is bounded, and nothing waits for it.

mod call;
mod channel;
mod collector;
mod exporter;

use std::time::Duration;

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider},
};
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tracing::{error, info, warn};

pub(crate) use self::{call::Trace, collector::Collector};
use self::{channel::channel, exporter::Exporter};

/// The service's name, as argocd-cmp-server has it.
const SERVICE: &str = "argocd-cmp-server";

/// Most spans that wait to be sent, OpenTelemetry's default. Further ones are dropped.
const QUEUE: usize = 2048;

/// Most spans of one message, OpenTelemetry's default. As many make a message due.
const BATCH: usize = 512;

/// Time between two messages, unless [`BATCH`] spans wait.
const DELAY: Duration = Duration::from_secs(2);

/// Time limit for a connection, and for a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the last message, when the supervisor ends.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Begins the traces of calls. Without a collector it begins none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<SdkTracer>);

/// Sends spans until it is closed.
#[derive(Debug, Default)]
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Connects to a collector, if there is one. An error turns traces off, because
    /// requests are more important. Call this within the runtime.
    #[must_use]
    pub(crate) fn open(collector: Option<&Collector>) -> Self {
        let Some(collector) = collector else { return Self::default() };
        for reason in &collector.warnings {
            warn!(reason, "a setting of traces cannot be read: it is left out");
        }
        let address = &collector.address;
        match provider(collector) {
            Ok(provider) => {
                info!(address, "sending traces");
                Self(Some(provider))
            }
            Err(reason) => {
                error!(address, reason, "no traces are sent");
                Self::default()
            }
        }
    }

    /// Begins the traces of calls.
    #[must_use]
    pub(crate) fn tracer(&self) -> Tracer {
        let tracer = |provider: &SdkTracerProvider| provider.tracer(env!("CARGO_PKG_NAME"));
        Tracer(self.0.as_ref().map(tracer))
    }

    /// Sends the spans that wait, for a limited time. Call this outside the runtime,
    /// while it still runs.
    pub(crate) fn close(self) {
        // The exporter has warned of an error.
        let _ = self.0.map(|provider| provider.shutdown_with_timeout(LAST_SPANS));
    }
}

fn provider(collector: &Collector) -> Result<SdkTracerProvider, String> {
    if collector.needs_tls {
        return Err("there is no TLS: set --otlp-insecure true and run a collector in the Pod or \
                    behind a mesh, or unset --otlp-address"
            .to_owned());
    }
    let sender = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_channel(channel(endpoint(&collector.address)?, SEND_TIMEOUT)?)
        .with_timeout(SEND_TIMEOUT)
        .with_metadata(metadata(&collector.headers)?)
        .build()
        .map_err(|error| error.to_string())?;
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let sender = Exporter::new(sender, collector.address.clone());
    let processor = BatchSpanProcessor::builder(sender).with_batch_config(limits).build();
    let attributes = collector.attributes.iter().cloned();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name, value));
    let resource = Resource::builder_empty().with_service_name(SERVICE);
    Ok(SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(collector.ratio))))
        .with_resource(resource.with_attributes(attributes).build())
        .with_span_processor(processor)
        .build())
}

/// The collector's address as a URL. With a scheme before it, the library would take
/// that for the host, and each message would fail.
fn endpoint(address: &str) -> Result<String, String> {
    let port = |(host, port): (&str, &str)| (!host.contains('/')).then(|| port.parse().ok());
    let port: Option<u16> = address.rsplit_once(':').and_then(port).flatten();
    let url = port.map(|_| format!("http://{address}"));
    url.ok_or_else(|| {
        "expected HOST:PORT without a scheme or a path, for example otel-collector:4317: correct \
         --otlp-address"
            .to_owned()
    })
}

/// The headers of messages. Errors do not show values, which may be secret.
fn metadata(headers: &[(String, String)]) -> Result<MetadataMap, String> {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers {
        let bad = || format!("header {name:?} of --otlp-headers is not valid");
        let key = MetadataKey::from_bytes(name.to_lowercase().as_bytes());
        let value = MetadataValue::try_from(value);
        metadata.insert(key.map_err(|_error| bad())?, value.map_err(|_error| bad())?);
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(endpoint("[::1]:4317"), Ok("http://[::1]:4317".to_owned()));
        for wrong in ["http://collector:4317", "collector", "collector:4317/v1", "collector:otlp"] {
            assert!(endpoint(wrong).is_err_and(|e| e.contains("HOST:PORT")), "{wrong}");
        }
    }
}
