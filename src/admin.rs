//! Metrics, health and reload over HTTP.

mod connections;
mod listener;
mod stream;

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch::Receiver},
    time::{interval, timeout},
};
use tokio_util::task::TaskTracker;

pub use self::listener::listen;
use self::{
    connections::{Connections, Place},
    stream::WatchedStream,
};
use crate::{
    accept::AcceptErrors,
    loader::Prompt,
    metrics::{Metrics, Reload},
    state::{Check, State, Summary, print},
};

/// Concurrent reloads. Each keeps its connection until the plugins are served,
/// and must not take all connections away from probes.
const MAX_RELOADS: usize = 8;

/// Bytes that a connection may buffer; also the limit for the head of a request.
const MAX_BUFFER: usize = 64 * 1024;

/// Time limit for a reload, including the new sockets.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which the metrics fold samples into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answer to a request for an unknown path.
const PAGES: &str =
    "not found: use /metrics, /livez, /readyz, /startupz, /plugins, or POST /-/reload";

/// Answers requests over HTTP.
#[derive(Clone, Debug)]
pub struct Admin {
    metrics: Metrics,
    states: Receiver<State>,
    prompt: Prompt,
    reloads: Arc<Semaphore>,
}

/// The requested path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    Alive(Detail),
    Ready(Detail),
    Plugins,
    Reload,
}

/// The length of a probe's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// One word if all is well.
    Brief,
    /// One line for each check (`?verbose`).
    Verbose,
}

impl Admin {
    /// Creates the endpoints from the metrics, the state and the reload trigger.
    #[must_use]
    pub fn new(metrics: Metrics, states: Receiver<State>, prompt: Prompt) -> Self {
        Self { metrics, states, prompt, reloads: Arc::new(Semaphore::new(MAX_RELOADS)) }
    }

    /// Serves until the runtime ends, because probes need answers while requests
    /// drain. Without a listener, it only maintains the metrics.
    pub async fn run(self, listener: Option<TcpListener>, tasks: TaskTracker) {
        let mut connections = Connections::new();
        let mut errors = AcceptErrors::new("a connection to the HTTP server");
        let mut upkeep = interval(UPKEEP);
        loop {
            tokio::select! {
                _ = upkeep.tick() => self.metrics.upkeep(),
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok((stream, peer)) => {
                        errors.accepted();
                        let place = connections.admit().await;
                        tasks.spawn(self.clone().serve(stream, peer, place));
                    }
                    Err(error) => errors.pause(&error).await,
                },
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: IpAddr, mut place: Place) {
        let progress = place.progress();
        let service = service_fn(|request: Request<Incoming>| {
            let page = Page::of(&request, peer);
            let (admin, progress) = (self.clone(), progress.clone());
            async move {
                if page == Ok(Page::Reload) {
                    progress.works();
                }
                Ok::<_, Infallible>(match page {
                    Ok(page) => admin.answer(page).await,
                    Err((status, refusal)) => text(status, refusal),
                })
            }
        });
        let connection = http1::Builder::new()
            // The place has the time limits.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(WatchedStream::new(stream, place.progress()), service);
        tokio::select! {
            // An aborted connection is normal.
            _ = connection => {}
            () = place.ended() => {}
        }
    }

    async fn answer(self, page: Page) -> Response<Full<Bytes>> {
        match page {
            Page::Metrics => text(StatusCode::OK, self.metrics.render()),
            Page::Alive(detail) => probed("livez", &self.states.borrow().liveness(), detail),
            Page::Ready(detail) => probed("readyz", &self.states.borrow().readiness(), detail),
            Page::Plugins => json(StatusCode::OK, &self.summary(&self.states.borrow())),
            Page::Reload => self.reload_in_time().await,
        }
    }

    fn summary(&self, state: &State) -> Summary {
        Summary::from(state).with_queues(&self.metrics)
    }

    async fn reload_in_time(self) -> Response<Full<Bytes>> {
        let Ok(_permit) = Arc::clone(&self.reloads).try_acquire_owned() else {
            let refusal = "too many reloads at once: try again when they have ended";
            return text(StatusCode::TOO_MANY_REQUESTS, refusal);
        };
        match timeout(RELOAD_TIMEOUT, self.clone().reload()).await {
            Ok(Some(state)) => json(status(state.result), &self.summary(&state)),
            Ok(None) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Err(_slow) => text(
                StatusCode::GATEWAY_TIMEOUT,
                "the reload takes too long: look at /plugins later",
            ),
        }
    }

    /// Reloads the definitions and waits until they are served. Returns `None` if
    /// the supervisor is stopping.
    async fn reload(mut self) -> Option<State> {
        let result = self.prompt.reload().await?.result;
        // This also waits for later changes.
        let state = self.states.wait_for(State::is_settled).await.ok()?.clone();
        Some(State { result, ..state })
    }
}

impl Page {
    fn of<B>(request: &Request<B>, peer: IpAddr) -> Result<Self, (StatusCode, &'static str)> {
        let page = match request.uri().path() {
            "/metrics" => Self::Metrics,
            "/livez" => Self::Alive(Detail::of(request)),
            "/readyz" | "/startupz" => Self::Ready(Detail::of(request)),
            "/plugins" => Self::Plugins,
            "/-/reload" => Self::Reload,
            _ => return Err((StatusCode::NOT_FOUND, PAGES)),
        };
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_right = match page {
            Self::Reload => *request.method() == Method::POST,
            Self::Metrics | Self::Alive(_) | Self::Ready(_) | Self::Plugins => is_reading,
        };
        if !is_right {
            let only = if page == Self::Reload {
                "method not allowed: use POST"
            } else {
                "method not allowed: use GET"
            };
            return Err((StatusCode::METHOD_NOT_ALLOWED, only));
        }
        // Only processes in the Pod may cause work. The rest of the cluster may not,
        // and neither may a web page in a browser that reaches the loopback address.
        let is_near = peer.to_canonical().is_loopback();
        if page == Self::Reload && (!is_near || request.headers().contains_key(header::ORIGIN)) {
            return Err((
                StatusCode::FORBIDDEN,
                "forbidden: call this from the Pod's loopback address",
            ));
        }
        Ok(page)
    }
}

impl Detail {
    /// `?verbose`, with or without a value, as for components of Kubernetes.
    fn of<B>(request: &Request<B>) -> Self {
        let mut parameters = request.uri().query().unwrap_or_default().split('&');
        let is_verbose = |parameter: &str| parameter.split('=').next() == Some("verbose");
        if parameters.any(is_verbose) { Self::Verbose } else { Self::Brief }
    }
}

/// The answer to a probe. A failed one always has the reasons.
fn probed(page: &str, checks: &[Check], detail: Detail) -> Response<Full<Bytes>> {
    match (checks.iter().all(|check| check.ok), detail) {
        (true, Detail::Brief) => text(StatusCode::OK, "ok"),
        (true, Detail::Verbose) => text(StatusCode::OK, print(page, checks)),
        (false, _) => text(StatusCode::SERVICE_UNAVAILABLE, print(page, checks)),
    }
}

fn status(result: Reload) -> StatusCode {
    match result {
        Reload::Applied | Reload::Unchanged => StatusCode::OK,
        Reload::Partial => StatusCode::UNPROCESSABLE_ENTITY,
        Reload::Rejected => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, IpAddr)> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, peer)| (stream, peer.ip())),
        None => std::future::pending().await,
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    response(status, "text/plain; version=0.0.4; charset=utf-8", body.into())
}

fn json(status: StatusCode, summary: &Summary) -> Response<Full<Bytes>> {
    match serde_json::to_vec_pretty(summary) {
        Ok(body) => response(status, "application/json", body.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(method: &str, path: &str, peer: &str) -> Result<Page, u16> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let page = Page::of(&request, peer.parse().unwrap());
        page.map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn each_path_has_its_page() {
        assert_eq!(page("GET", "/livez", "10.0.0.1"), Ok(Page::Alive(Detail::Brief)));
        assert_eq!(page("HEAD", "/readyz", "10.0.0.1"), Ok(Page::Ready(Detail::Brief)));
        for query in ["verbose", "verbose=true", "a&verbose"] {
            let verbose = page("GET", &format!("/readyz?{query}"), "10.0.0.1");
            assert_eq!(verbose, Ok(Page::Ready(Detail::Verbose)), "{query}");
        }
        assert_eq!(page("GET", "/plugins", "10.0.0.1"), Ok(Page::Plugins));
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        assert_eq!(page("GET", "/", "127.0.0.1"), Err(404));
        assert_eq!(page("POST", "/metrics", "127.0.0.1"), Err(405));
        assert_eq!(page("GET", "/-/reload", "127.0.0.1"), Err(405));
    }

    #[test]
    fn only_the_pod_may_reload() {
        for near in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(page("POST", "/-/reload", near), Ok(Page::Reload), "{near}");
        }
        for far in ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0"] {
            assert_eq!(page("POST", "/-/reload", far), Err(403), "{far}");
        }
    }

    #[test]
    fn pages_in_a_browser_may_not_reload() {
        let request = Request::post("/-/reload").header("Origin", "http://evil.example");
        let request = request.body(()).unwrap();
        let refusal = Page::of(&request, "127.0.0.1".parse().unwrap()).unwrap_err();
        assert_eq!(refusal.0, 403);
    }
}
