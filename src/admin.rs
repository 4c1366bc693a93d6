//! The edge to people and their tools: metrics and health over HTTP.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{interval, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use crate::metrics::Metrics;

/// Connections at a time: a scraper, two probes, and whoever looks.
const MAX_CONNECTIONS: usize = 32;

/// How long a client may take to send a request's head.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often samples are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers `/metrics`, `/livez` and `/readyz`.
#[derive(Clone, Debug)]
pub struct Admin {
    metrics: Metrics,
    ready: watch::Receiver<bool>,
}

impl Admin {
    /// What it answers from.
    #[must_use]
    pub fn new(metrics: Metrics, ready: watch::Receiver<bool>) -> Self {
        Self { metrics, ready }
    }

    /// Serves until `stop`. Without a listener only the upkeep is done.
    pub async fn run(
        self,
        listener: Option<TcpListener>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut upkeep = interval(UPKEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = upkeep.tick() => self.metrics.upkeep(),
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(stream) => {
                        // Whoever finds no place is turned away at once.
                        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                            let connection = self.clone().serve(stream);
                            tasks.spawn(async move { connection.await; drop(place); });
                        }
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept an HTTP connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    async fn serve(self, stream: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| {
            let response = self.answer(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service);
        // A client that breaks off is no news.
        let _ = connection.await;
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        match request.uri().path() {
            "/metrics" => text(StatusCode::OK, self.metrics.render()),
            "/livez" => text(StatusCode::OK, "ok"),
            "/readyz" if *self.ready.borrow() => text(StatusCode::OK, "ok"),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready"),
            _ => text(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz"),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(admin: &Admin, method: &str, path: &str) -> u16 {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        admin.answer(&request).status().as_u16()
    }

    #[test]
    fn readiness_is_not_liveness() {
        let (ready, receiver) = watch::channel(false);
        let admin = Admin::new(Metrics::new(), receiver);
        assert_eq!(status(&admin, "GET", "/livez"), 200);
        assert_eq!(status(&admin, "GET", "/readyz"), 503);
        ready.send_replace(true);
        assert_eq!(status(&admin, "GET", "/readyz"), 200);
    }

    #[test]
    fn there_is_nothing_else() {
        let admin = Admin::new(Metrics::new(), watch::channel(true).1);
        assert_eq!(status(&admin, "GET", "/"), 404);
        assert_eq!(status(&admin, "POST", "/metrics"), 405);
    }
}
