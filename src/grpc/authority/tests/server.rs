//! h2 as the server of a client whose bytes are fixed in advance.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::Repaired;

/// The event after the client's last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Silence,
    Hangup,
}

/// A client that sends `bytes` in pieces, each after a pause.
pub(super) struct Wire {
    pub(super) bytes: Bytes,
    pub(super) piece: usize,
    pub(super) end: End,
    pub(super) paused: bool,
    pub(super) written: Rc<RefCell<Vec<u8>>>,
}

impl Wire {
    pub(super) fn new(bytes: &[u8], piece: usize, end: End) -> Self {
        let bytes = Bytes::copy_from_slice(bytes);
        Self { bytes, piece, end, paused: false, written: Rc::default() }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() && self.end == End::Silence {
            return Poll::Pending;
        }
        self.paused = !self.paused;
        if self.paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = self.piece.min(self.bytes.len()).min(buffer.remaining());
        buffer.put_slice(&self.bytes.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Requests that the server saw, and its reaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) requests: Vec<Seen>,
    /// All bytes that it sent, including resets and the reason of a GOAWAY.
    pub(super) written: Vec<u8>,
    pub(super) failure: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) fields: Vec<(String, Vec<u8>)>,
}

impl Seen {
    fn new<B>(request: &http::Request<B>) -> Self {
        let fields = request.headers().iter();
        Self {
            authority: request.uri().authority().unwrap().as_str().to_owned(),
            path: request.uri().path().to_owned(),
            fields: fields.map(|(name, value)| (name.to_string(), value.as_ref().into())).collect(),
        }
    }
}

/// Runs h2 with the repair in front.
pub(super) fn repaired(bytes: &[u8], piece: usize, end: End) -> Served {
    let wire = Wire::new(bytes, piece, end);
    let written = Rc::clone(&wire.written);
    served(Repaired::new(wire), &written)
}

/// Runs h2 without the repair.
pub(super) fn stock(bytes: &[u8], piece: usize, end: End) -> Served {
    let wire = Wire::new(bytes, piece, end);
    let written = Rc::clone(&wire.written);
    served(wire, &written)
}

fn served<S: AsyncRead + AsyncWrite + Unpin>(io: S, written: &RefCell<Vec<u8>>) -> Served {
    let mut served = Served::default();
    if let Some(accepted) = settle(accept_all(io, &mut served.requests)) {
        served.failure = accepted.err().map(|error| error.to_string());
    }
    served.written.clone_from(&written.borrow());
    served
}

async fn accept_all<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
    requests: &mut Vec<Seen>,
) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(io).await?;
    let mut responses = Vec::new();
    while let Some(accepted) = connection.accept().await {
        let (request, mut response) = accepted?;
        requests.push(Seen::new(&request));
        response.send_response(http::Response::new(()), true)?;
        responses.push((request, response));
    }
    Ok(())
}

/// Polls until nothing asks for another poll; `None` if it is still pending then.
fn settle<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if !woken.0.swap(false, Ordering::Relaxed) {
            return None;
        }
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
