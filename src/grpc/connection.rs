//! A client's connection, which keeps its first definition.

use std::{convert::Infallible, pin::Pin, sync::Arc};

use http::{Request, Response};
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;
use tonic::{Status, body::Body, service::Routes};
use tower::ServiceExt;
use tracing::debug;

use super::{
    authority::Repaired,
    backend::Backend,
    call::Definitions,
    encoded,
    first_call::{FirstCall, warn_of},
    open_calls::{OpenCall, OpenCalls},
    refusals::{Reached, Refusals},
    room::Room,
    service::PluginService,
    stream,
    timeout::timeout,
    unknown,
    unread::{self, Reader},
    warning_pause::WarningPause,
    wire::plugin::config_management_plugin_service_server::ConfigManagementPluginServiceServer,
};
use crate::{budget::WINDOW, plugin::PluginName, request::admission::NewestDefinition};

/// Flow-control window of a connection in bytes. It is much larger than that of
/// a stream, so h2 does not take many small queued frames for an attack.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Flow-control window in bytes of a stream while there is memory for it. With
/// [`WINDOW`], client and server wait for each other every 64 KiB.
const WIDE_WINDOW: u32 = 256 * 1024;

/// Concurrent calls on one connection. Argo CD makes one at a time.
const MAX_STREAMS: u32 = 256;

/// Longest headers of one call in bytes; equal to the limit of the authority repair.
const MAX_HEADERS: u32 = 64 * 1024;

/// Answers the calls of one plugin.
#[derive(Clone, Debug)]
struct Calls {
    routes: Routes,
    refusals: Refusals,
    reader: Reader,
}

/// Serves connections of one plugin.
#[derive(Clone, Debug)]
pub(super) struct Server {
    calls: Calls,
    http: http2::Builder<Tasks>,
    backend: Backend,
    open_calls: OpenCalls,
    plugin: PluginName,
    /// The last warning of clients that make no call.
    silent: WarningPause,
    /// The last warning of clients that cancel their calls at once.
    resets: WarningPause,
}

impl Server {
    /// A server for a plugin, which answers the calls of `services` too.
    pub(super) fn new(backend: &Backend, plugin: &PluginName, services: Routes) -> Self {
        let limit = backend.max_message;
        let service = PluginService {
            backend: backend.clone(),
            _membership: Arc::new(backend.pipeline.admission.join(plugin)),
            metrics: backend.metrics.plugin(plugin.as_str()),
        };
        let service = ConfigManagementPluginServiceServer::new(service)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        let routes = services.add_service(service).prepare();
        let mut http = http2::Builder::new(Tasks(backend.connections.clone()));
        http.timer(TokioTimer::new())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADERS);
        let refusals = Refusals::new(plugin, backend.metrics.plugin(plugin.as_str()));
        let reader = Reader::new(plugin, backend.stream_timeout);
        Self {
            calls: Calls { routes, refusals, reader },
            http,
            backend: backend.clone(),
            open_calls: backend.open_calls.of_plugin(),
            plugin: plugin.clone(),
            silent: WarningPause::default(),
            resets: WarningPause::default(),
        }
    }

    /// Room for connections.
    pub(super) fn room(&self) -> &Room {
        &self.backend.room
    }

    /// Takes over the limits of a changed definition that all connections share.
    pub(super) fn follow(&self, newest: &NewestDefinition) {
        self.backend.pipeline.own.follow(newest);
    }

    /// Serves a connection to its end. All its calls use the same definition, so
    /// discovery and generate cannot disagree.
    pub(super) fn serve(&self, stream: UnixStream, newest: NewestDefinition) {
        let (calls, open_calls) = (self.calls.clone(), self.open_calls.clone());
        let pinned = Arc::clone(&newest.borrow());
        let definitions = Definitions { pinned, newest, resets: self.resets.clone() };
        let first = FirstCall::default();
        let begun = first.clone();
        let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
            begun.begin();
            request.extensions_mut().insert(definitions.clone());
            calls.clone().answer(open_calls.enter(), request)
        });
        // The memory that the unread archive of a waiting request may use.
        let Backend { archive_share, connections, room, .. } = &self.backend;
        let lent = archive_share.lend(WIDE_WINDOW.into());
        let mut http = self.http.clone();
        http.initial_stream_window_size(if lent.is_some() { WIDE_WINDOW } else { WINDOW });
        let connection = http.serve_connection(TokioIo::new(Repaired::new(stream)), service);
        // At once: otherwise more clients are accepted before this task runs.
        let (room, place) = (room.clone(), room.try_enter());
        let (plugin, silent) = (self.plugin.clone(), self.silent.clone());
        connections.spawn(async move {
            let _lent = lent;
            let _place = match place {
                Some(place) => place,
                None => room.enter().await,
            };
            let shut_down = |connection: Pin<&mut http2::Connection<_, _, _>>| {
                warn_of(&plugin, &silent);
                connection.graceful_shutdown();
            };
            if let Some(Err(error)) = first.follow(connection, &room, shut_down).await {
                debug!(%error, "a connection ended early");
            }
        });
    }
}

impl Calls {
    /// Answers a call that was counted. A refused one is not read to its end: that would keep
    /// its memory.
    async fn answer(
        self,
        entered: Result<OpenCall, Status>,
        mut request: Request<hyper::body::Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let Self { routes, refusals, reader } = self;
        let call = match entered {
            Ok(call) => call,
            Err(refusal) => {
                refusals.count();
                return Ok(refusal.into_http());
            }
        };
        let (path, reached) = (request.uri().clone(), Reached::default());
        // A call without a valid deadline is refused.
        let reader = reader.granted(timeout(request.headers()).ok().flatten());
        request.extensions_mut().insert(reached.clone());
        let answer = routes.oneshot(request.map(stream::body)).await?;
        let answer = unknown::explain(path.path(), answer);
        refusals.examine(path.path(), &reached, &answer);
        let answer = encoded::send(answer, reader);
        Ok(answer.map(|body| call.until_sent(body)))
    }
}

/// Makes hyper spawn its tasks on our tracker.
#[derive(Clone, Debug)]
struct Tasks(TaskTracker);

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        // It is large, and a future that holds it would be several times as large.
        self.0.spawn(unread::serve(Box::pin(future)));
    }
}
