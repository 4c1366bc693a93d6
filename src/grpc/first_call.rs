//! Ends connections of clients that make no call, when there is no room for more.

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

use super::{room::Room, warning_pause::WarningPause};
use crate::plugin::PluginName;

/// Time until the first call of a connection for which it is never ended. Argo CD makes it
/// at once, but a client that was stopped meanwhile waits for the connection without a limit.
const FIRST_CALL: Duration = Duration::from_secs(10);

/// Time between two looks whether there is room, and the time for a client to notice that
/// its connection ends. A call that is on its way is still answered.
const PAUSE: Duration = Duration::from_secs(2);

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

    /// Follows a connection to its end. One without a call is asked to end by `shut_down`
    /// when there is no room for others, and then dropped: the result is `None`.
    pub(super) async fn follow<C: Future>(
        &self,
        connection: C,
        room: &Room,
        shut_down: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut connection = pin!(connection);
        let (mut time, mut is_ending) = (FIRST_CALL, false);
        loop {
            tokio::select! {
                // A call that has arrived is noticed before the time is.
                biased;
                ended = connection.as_mut() => return Some(ended),
                () = sleep(time) => {}
            }
            if self.has_begun() {
                return Some(connection.await);
            }
            if is_ending {
                return None;
            }
            time = PAUSE;
            if !room.has_free() {
                shut_down(connection.as_mut());
                is_ending = true;
            }
        }
    }
}

/// Tells that such a connection of a plugin is closed.
pub(super) fn warn_of(plugin: &PluginName, warning_pause: &WarningPause) {
    if warning_pause.is_over() {
        warn!(
            plugin = plugin.as_str(),
            limit = ?FIRST_CALL,
            "a client has connected to a plugin's socket and made no call: its connection is closed, \
             because there is no room for more"
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
        time::{Instant, timeout},
    };
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{budget::Share, metrics::Metrics};

    type Nothing = Empty<bytes::Bytes>;

    /// Serves one connection, which fills the room or does not. Each call is answered after
    /// `time`.
    fn serve(time: Duration, is_full: bool) -> DuplexStream {
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
        let room = Room::new(&Share::new(if is_full { 1 } else { 2 }, ""), Metrics::new());
        TaskTracker::new().spawn(async move {
            let _place = room.try_enter();
            first.follow(connection, &room, http2::Connection::graceful_shutdown).await
        });
        theirs
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_makes_no_call_is_closed_if_others_need_its_room() {
        let with_settings = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..];
        for said in [b"", &b"PRI * HTTP/2.0"[..], with_settings] {
            let mut client = serve(FIRST_CALL, true);
            client.write_all(said).await.unwrap();
            let start = Instant::now();
            let _ = client.read_to_end(&mut Vec::new()).await;
            let time = start.elapsed();
            assert!(time >= FIRST_CALL && time <= FIRST_CALL + 2 * PAUSE, "{said:?}: {time:?}");
            let mut client = serve(FIRST_CALL, false);
            client.write_all(said).await.unwrap();
            let end = timeout(100 * FIRST_CALL, client.read_to_end(&mut Vec::new())).await;
            assert!(end.is_err(), "{said:?}: closed although there is room");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_take_long_and_the_next_one_may_come_late() {
        let io = TokioIo::new(serve(10 * FIRST_CALL, true));
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
