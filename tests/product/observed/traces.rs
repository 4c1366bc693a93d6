//! Traces: a stub of a collector takes the spans of a running supervisor.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span},
};
use rustix::process::Signal;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    observed::request::Observed,
    reload::server::unserved,
    waiting::{eventually, retry},
};

/// The client's trace and span.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// Prints its variable, so that the answer shows it.
const SCRIPT: &str = "echo \"kind: \\\"$TRACEPARENT\\\"\"";

/// Everything that was received, and the header `authorization` of the last message.
type Taken = Arc<Mutex<(Vec<ResourceSpans>, Option<String>)>>;

/// Takes all spans.
struct Collector {
    address: SocketAddr,
    taken: Taken,
    _runtime: Runtime,
}

struct Stub(Taken);

#[tonic::async_trait]
impl TraceService for Stub {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let header = request.metadata().get("authorization");
        let header = header.map(|value| value.to_str().unwrap().to_owned());
        let mut taken = self.0.lock().unwrap();
        taken.0.extend(request.into_inner().resource_spans);
        taken.1 = header;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Taken::default());
        let service = TraceServiceServer::new(Stub(Arc::clone(&taken)));
        let serving = Server::builder().add_service(service);
        runtime.spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, taken, _runtime: runtime }
    }

    /// Waits for the span of a call, and returns all spans of its trace by name.
    fn spans(&self, call: &str) -> BTreeMap<String, Span> {
        retry(|| {
            let all: Vec<Span> = self.all();
            let found = all.iter().find(|span| span.name.ends_with(call));
            let found = found.ok_or_else(|| format!("the span {call}: {all:?}"))?;
            let same = all.iter().filter(|span| span.trace_id == found.trace_id);
            Ok::<_, String>(same.map(|span| (span.name.clone(), span.clone())).collect())
        })
    }

    fn all(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        let scopes = taken.0.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// The text of an attribute.
fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{key}: {other:?} in {attributes:?}"),
    }
}

/// Renders as a client with a trace.
fn render(observed: &Observed, plugin: &str, flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.env("TRACEPARENT", format!("00-{TRACE}-{CLIENT}-{flags}"));
    observed.render_with(command, plugin)
}

#[test]
fn the_clients_trace_goes_on_to_phases_and_commands() {
    let collector = Collector::new();
    let address = collector.address.to_string();
    let arguments = ["--otlp-address", &address, "--otlp-headers", "authorization=secret1"];
    let variables = [("ARGOCD_CMP_SERVER_OTLP_ATTRS", "team:a")];
    let observed = Observed::with(&[("good", SCRIPT)], &arguments, &variables);
    let rendered = render(&observed, "good", "01");
    let answer = String::from_utf8(rendered.stdout).unwrap();
    let spans = collector.spans("/GenerateManifest");
    let call = &spans["plugin.ConfigManagementPluginService/GenerateManifest"];
    assert_eq!((hex(&call.trace_id), hex(&call.parent_span_id)), (TRACE.into(), CLIENT.into()));
    assert_eq!(call.kind, 2, "a server");
    for (key, value) in
        [("rpc.system", "grpc"), ("rpc.grpc.status_code", "0"), ("cmp.plugin", "good")]
    {
        assert_eq!(text(&call.attributes, key), value);
    }
    for phase in ["open", "queue", "cmp.ReceiveRepoStream", "generate", "split"] {
        assert_eq!(spans[phase].parent_span_id, call.span_id, "{phase}");
    }
    let generate = &spans["generate"];
    assert_eq!(text(&generate.attributes, "command"), "sh");
    let expected = format!("00-{TRACE}-{}-01", hex(&generate.span_id));
    assert!(answer.contains(&expected), "{answer}");
    assert!(observed.server.says("\"outcome\":\"ok\"").contains(TRACE));
    is_described(&collector);
}

/// Checks headers and attributes of all messages.
fn is_described(collector: &Collector) {
    let taken = collector.taken.lock().unwrap().clone();
    assert_eq!(taken.1.as_deref(), Some("secret1"));
    let resource = taken.0[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "argocd-cmp-server");
    assert_eq!(text(&resource.attributes, "team"), "a");
}

#[test]
fn a_failure_is_the_status_of_its_span() {
    let collector = Collector::new();
    let address = collector.address.to_string();
    let observed = Observed::new(&[("bad", "exit 3")], &["--otlp-address", &address]);
    observed.render("bad");
    let is_bad = |span: &Span| span.status.as_ref().is_some_and(|s| s.message == "exit_nonzero");
    eventually("the span of the failure", || collector.all().iter().any(is_bad));
}

#[test]
fn a_client_that_does_not_sample_sends_no_spans() {
    let collector = Collector::new();
    let address = collector.address.to_string();
    let observed = Observed::new(&[("good", SCRIPT)], &["--otlp-address", &address]);
    let rendered = render(&observed, "good", "00");
    let answer = String::from_utf8(rendered.stdout).unwrap();
    assert!(answer.contains(&format!("00-{TRACE}-")) && answer.contains("-00"), "{answer}");
    observed.render("good");
    collector.spans("/GenerateManifest");
    assert!(collector.all().iter().all(|span| hex(&span.trace_id) != TRACE));
}

#[test]
fn a_collector_that_is_down_or_needs_tls_costs_a_warning() {
    let (_bound, nobody) = unserved();
    let address = nobody.to_string();
    let mut observed = Observed::new(&[("good", SCRIPT)], &["--otlp-address", &address]);
    assert!(observed.render("good").status.success());
    observed.server.says("the collector does not take traces");
    assert!(observed.render("good").status.success());
    observed.server.signal(Signal::TERM);
    observed.server.ends();
    let arguments = ["--otlp-address", &address, "--otlp-insecure", "false"];
    let observed = Observed::new(&[("good", SCRIPT)], &arguments);
    assert!(observed.render("good").status.success());
}

#[test]
fn without_a_collector_there_is_no_trace() {
    let observed = Observed::new(&[("good", SCRIPT)], &[]);
    let rendered = render(&observed, "good", "01");
    assert!(String::from_utf8(rendered.stdout).unwrap().contains("kind: \"\""));
    assert!(!observed.server.says("\"outcome\":\"ok\"").contains("trace_id"));
}
