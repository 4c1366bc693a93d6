//! Metrics, health, the status page and reload over HTTP.

mod answer;
mod askers;
mod connections;
mod events;
mod listener;
mod page;
mod scrapes;
mod stream;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch::Receiver},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use self::{
    answer::{Answer, Encoding},
    askers::Ends,
    connections::{Connections, Place},
    events::{Live, MAX_LISTENERS},
    page::{Detail, Page},
    stream::WatchedStream,
};
pub(crate) use self::{askers::Askers, listener::listen, scrapes::Scrapes};
use crate::{
    accept::AcceptErrors,
    config::LogFilter,
    loader::Prompt,
    log::LogControl,
    metrics::{Metrics, Reload},
    plugin::PluginName,
    recent::Recent,
    request::admission::Admission,
    state::{Check, Component, Condition, State, Summary, print},
};

/// Concurrent reloads. Each keeps its connection until the plugins are served,
/// and must not take all connections away from probes.
const MAX_RELOADS: usize = 8;

/// Bytes that a connection may buffer. The head of a request can be longer by what is
/// read at once, at most as much again.
const MAX_BUFFER: usize = 64 * 1024;

/// Time limit for a reload, including the new sockets.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest text of a log filter in bytes.
const MAX_FILTER: usize = 4096;

/// The status page. It reads `/events`; while it gets none, it reads `/plugins`,
/// `/requests` and `/metrics` every 2 s. It needs nothing else.
const STATUS_PAGE: &str = include_str!("admin/status.html");

/// Answers requests over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    sources: Sources,
    audience: Audience,
    askers: Askers,
    reloads: Arc<Semaphore>,
    live: Live,
}

/// The clients that an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All clients, because there is no other address. Orders only from the loopback
    /// address.
    Everybody,
    /// Clients other than operators: no orders and no details.
    Public,
    /// Operators. Everybody who can reach the address is one.
    Operators,
}

/// The parts that the endpoints show and control. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// All metrics.
    pub metrics: Metrics,
    /// The state of plugins.
    pub states: Receiver<State>,
    /// Knows why requests wait.
    pub admission: Admission,
    /// The last requests.
    pub recent: Recent,
    /// Reloads the definitions.
    pub prompt: Prompt,
    /// Changes the log's filter.
    pub log: LogControl,
    /// Makes pages of metrics.
    pub scrapes: Scrapes,
}

impl Sources {
    /// A state with the requests that wait now.
    fn summary(&self, state: &State) -> Summary {
        let is_silent =
            matches!(state.conditions.get(&Component::Spawner), Some(Condition::Bad(_)));
        let obstacle = |plugin: &str| {
            let plugin = PluginName::new(plugin, "").ok()?;
            let obstacle = self.admission.waits_for(&plugin)?;
            let obstacle = if is_silent { obstacle.of_silence() } else { obstacle };
            Some(obstacle.to_string())
        };
        Summary::from(state).with_queues(&self.metrics, obstacle)
    }
}

impl Admin {
    /// Creates the endpoints.
    #[must_use]
    pub(crate) fn new(mut sources: Sources, audience: Audience, askers: Askers) -> Self {
        if audience == Audience::Public {
            sources.recent = sources.recent.without_details();
        }
        let reloads = Arc::new(Semaphore::new(MAX_RELOADS));
        Self { sources, audience, askers, reloads, live: Live::new() }
    }

    /// Serves until the runtime ends, because probes need answers while requests
    /// drain.
    pub(crate) async fn run(self, listener: TcpListener, tasks: TaskTracker) {
        let mut connections = Connections::new();
        let mut errors = AcceptErrors::new("a connection to the HTTP server");
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    errors.accepted();
                    let place = connections.admit().await;
                    tasks.spawn(self.clone().serve(stream, peer, place));
                }
                Err(error) => errors.pause(&error).await,
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, mut place: Place) {
        let Ok(own) = stream.local_addr() else { return };
        let progress = place.progress();
        let service = service_fn(|request: Request<Incoming>| {
            let page = Page::of(&request, self.audience, peer.ip());
            let encoding = Encoding::accepted(request.headers());
            let (admin, progress) = (self.clone(), progress.clone());
            async move {
                match page {
                    Ok(Page::Reload) => progress.works(),
                    // It still has to read what the client sends.
                    Ok(Page::SetLogLevel) => {}
                    Ok(_) | Err(_) => progress.answers(),
                }
                let refusal = match page {
                    Ok(page) if page.is_order() => admin.askers.refusal(Ends { peer, own }).await,
                    Ok(_) | Err(_) => None,
                };
                let answer = match (page, refusal) {
                    (Err((status, refusal)), _) => Answer::text(status, refusal),
                    (Ok(_), Some(refusal)) => Answer::text(StatusCode::FORBIDDEN, refusal),
                    (Ok(Page::SetLogLevel), None) => admin.set_log_level(request.into_body()).await,
                    (Ok(page), None) => admin.answer(page, encoding).await,
                };
                Ok::<_, Infallible>(answer.encode(encoding))
            }
        });
        let connection = http1::Builder::new()
            // The place has the time limits.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(WatchedStream::new(stream, place.progress()), service);
        tokio::select! {
            // A request that has arrived is answered before a new connection takes the place.
            biased;
            // An aborted connection is normal.
            _ = connection => {}
            () = place.ended() => {}
        }
    }

    async fn answer(self, page: Page, encoding: Encoding) -> Answer {
        let Sources { states, recent, log, scrapes, .. } = &self.sources;
        match page {
            Page::Status => Answer::html(STATUS_PAGE),
            Page::Metrics(format) => {
                let page = scrapes.page(format, encoding).await;
                page.map_or_else(stopping, |page| Answer::metrics(page, format, encoding))
            }
            Page::Alive(detail) => probed("livez", &states.borrow().liveness(), detail),
            Page::Ready(detail) => probed("readyz", &states.borrow().readiness(), detail),
            Page::Plugins => Answer::json(StatusCode::OK, &self.sources.summary(&states.borrow())),
            Page::Requests => Answer::json(StatusCode::OK, &recent.listing()),
            Page::Events => self.events(),
            Page::LogLevel | Page::SetLogLevel => Answer::text(StatusCode::OK, log.filter()),
            Page::Reload => self.reload_in_time().await,
        }
    }

    fn events(&self) -> Answer {
        self.live.listen(&self.sources).map_or_else(
            || {
                let refusal = format!("{MAX_LISTENERS} clients listen already: ask /plugins");
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, refusal)
            },
            Answer::events,
        )
    }

    /// Sets the filter of the log to the text of a body.
    async fn set_log_level(self, body: Incoming) -> Answer {
        let Ok(body) = Limited::new(body, MAX_FILTER).collect().await else {
            let refusal = format!("a log filter has at most {MAX_FILTER} bytes");
            return Answer::text(StatusCode::PAYLOAD_TOO_LARGE, refusal);
        };
        let body = body.to_bytes();
        let filter = String::from_utf8_lossy(&body).trim().parse::<LogFilter>();
        match filter.map_err(|error| error.to_string()).and_then(|f| self.sources.log.set(f)) {
            Ok(()) => Answer::text(StatusCode::OK, self.sources.log.filter()),
            Err(error) => Answer::text(StatusCode::BAD_REQUEST, error),
        }
    }

    async fn reload_in_time(self) -> Answer {
        let Ok(_permit) = Arc::clone(&self.reloads).try_acquire_owned() else {
            let refusal = "too many reloads at once: try again when they have ended";
            return Answer::text(StatusCode::TOO_MANY_REQUESTS, refusal);
        };
        match timeout(RELOAD_TIMEOUT, self.clone().reload()).await {
            Ok(Some(state)) => Answer::json(status(&state), &self.sources.summary(&state)),
            Ok(None) => stopping(),
            Err(_slow) => Answer::text(
                StatusCode::GATEWAY_TIMEOUT,
                "the reload takes too long: look at /plugins later",
            ),
        }
    }

    /// Reloads the definitions and waits until they are served. Returns `None` if
    /// the supervisor is stopping.
    async fn reload(mut self) -> Option<State> {
        let result = self.sources.prompt.reload().await?.result;
        // This also waits for later changes.
        let state = self.sources.states.wait_for(State::is_settled).await.ok()?.clone();
        Some(State { result, ..state })
    }
}

fn stopping() -> Answer {
    Answer::text(StatusCode::SERVICE_UNAVAILABLE, "stopping")
}

/// The answer to a probe. A failed one always has the reasons.
fn probed(page: &str, checks: &[Check], detail: Detail) -> Answer {
    match (checks.iter().all(|check| check.ok), detail) {
        (true, Detail::Brief) => Answer::text(StatusCode::OK, "ok"),
        (true, Detail::Verbose) => Answer::text(StatusCode::OK, print(page, checks)),
        (false, _) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, print(page, checks)),
    }
}

/// The status of a reload. Whoever reloads expects that something is served then.
fn status(state: &State) -> StatusCode {
    match state.result {
        Reload::Applied | Reload::Unchanged if state.desired.is_empty() => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Reload::Applied | Reload::Unchanged => StatusCode::OK,
        Reload::Partial => StatusCode::UNPROCESSABLE_ENTITY,
        Reload::Rejected => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
