//! Ends connections of clients that make no call.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tracing::warn;

use super::warning_pause::WarningPause;

/// Longest time until the first call of a connection. Argo CD makes it at once.
const FIRST_CALL: Duration = Duration::from_secs(10);

/// Longest time after that for a client to notice that the connection ends. A call that is
/// on its way is still answered.
const FAREWELL: Duration = Duration::from_secs(2);

/// Tells whether a connection had a call. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstCall(Arc<AtomicBool>);

impl FirstCall {
    /// A call begins.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Follows a connection to its end. One without a call is asked to end by `shut_down`,
    /// and then dropped: the result is `None`.
    pub(super) async fn follow<C: Future>(
        &self,
        connection: C,
        shut_down: impl Fn(Pin<&mut C>),
        warning_pause: &WarningPause,
    ) -> Option<C::Output> {
        let mut connection = pin!(connection);
        for time in [FIRST_CALL, FAREWELL] {
            tokio::select! {
                // A call that has arrived is noticed before the time is.
                biased;
                ended = connection.as_mut() => return Some(ended),
                () = sleep(time) => {}
            }
            if self.has_begun() {
                return Some(connection.await);
            }
            if time == FIRST_CALL {
                warn_of(warning_pause);
                shut_down(connection.as_mut());
            }
        }
        None
    }
}

fn warn_of(warning_pause: &WarningPause) {
    if warning_pause.is_over() {
        warn!(
            limit = ?FIRST_CALL,
            "a client has connected to a plugin's socket and made no call: its connection is closed"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::{body::Incoming, client, server::conn::http2, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::Instant,
    };
    use tokio_util::task::TaskTracker;

    use super::*;

    type Nothing = Empty<bytes::Bytes>;

    /// Serves one connection. Each call is answered after `time`.
    fn serve(time: Duration) -> DuplexStream {
        let (theirs, ours) = duplex(1 << 16);
        let first = FirstCall::default();
        let calls = first.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            calls.begin();
            async move {
                sleep(time).await;
                Ok::<_, Infallible>(Response::new(Nothing::new()))
            }
        });
        let mut http = http2::Builder::new(TokioExecutor::new());
        let connection =
            http.timer(TokioTimer::new()).serve_connection(TokioIo::new(ours), service);
        TaskTracker::new().spawn(async move {
            let pause = WarningPause::default();
            first.follow(connection, http2::Connection::graceful_shutdown, &pause).await
        });
        theirs
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_makes_no_call_is_closed() {
        let with_settings = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..];
        for said in [b"", &b"PRI * HTTP/2.0"[..], with_settings] {
            let mut client = serve(FIRST_CALL);
            client.write_all(said).await.unwrap();
            let start = Instant::now();
            let _ = client.read_to_end(&mut Vec::new()).await;
            let time = start.elapsed();
            assert!(time >= FIRST_CALL && time <= FIRST_CALL + 2 * FAREWELL, "{said:?}: {time:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_take_long_and_the_next_one_may_come_late() {
        let io = TokioIo::new(serve(10 * FIRST_CALL));
        let http = client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut send, connection) = http.handshake::<_, Nothing>(io).await.unwrap();
        TaskTracker::new().spawn(connection);
        for _ in 0..2 {
            let request = Request::get("http://localhost/").body(Nothing::new()).unwrap();
            assert!(send.send_request(request).await.is_ok());
            sleep(10 * FIRST_CALL).await;
        }
    }
}
