//! A worker, seen from the supervisor.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use prost::Message;
use thiserror::Error;
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{UnixStream, unix::pipe},
    sync::oneshot,
};

use super::{bounds::Bounds, lease::Lease, link::Outgoing};
use crate::wire::{
    channel,
    message::{Grants, JobKind, WorkerEnded},
    plan::{self, Answer, Exited, Failed, Plan, Reply},
};

/// A worker could not be confined, so it did nothing.
#[derive(Debug, Error)]
#[error("the sandbox could not {reason}")]
pub struct Unconfined {
    reason: String,
}

/// A worker and the socket that leads to it.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    socket: UnixStream,
    ended: oneshot::Receiver<WorkerEnded>,
    /// Received, but not understood yet.
    buffer: Vec<u8>,
    /// Said after the command was to start.
    last: Option<Answer>,
    /// Nothing more will be said.
    silent: bool,
    /// The way for an archive.
    archive: Option<pipe::Sender>,
}

/// The other ends of what leads to a worker.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// What the worker gets: its socket, and where an archive comes from.
    pub(super) descriptors: Vec<OwnedFd>,
    /// Where its end is told.
    pub(super) ended: oneshot::Sender<WorkerEnded>,
}

/// Longest grants in bytes, so that an order fits into a message.
const MAX_GRANTS: usize = 12 * 1024;

/// Most bytes received at a time; a reply is far shorter.
const PIECE: usize = 16 * 1024;

impl WorkerHandle {
    /// A worker to be, and what is to be sent for it to come to be.
    pub(super) fn new(kind: JobKind) -> Result<(Self, Endpoints), Unconfined> {
        let (socket, theirs) = channel::stream_pair().map_err(cannot("make a socket"))?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(cannot("make a socket"))?;
        let socket = std::os::unix::net::UnixStream::from(socket);
        let socket = UnixStream::from_std(socket).map_err(cannot("make a socket"))?;
        let (archive, source) = if kind == JobKind::Unpack {
            let (archive, source) = pipe::pipe().map_err(cannot("make a pipe"))?;
            let source = source.into_blocking_fd().map_err(cannot("make a pipe"))?;
            (Some(archive), Some(source))
        } else {
            (None, None)
        };
        let (told, ended) = oneshot::channel();
        let descriptors = [theirs].into_iter().chain(source).collect();
        let worker = Self { socket, ended, buffer: Vec::new(), last: None, silent: false, archive };
        Ok((worker, Endpoints { descriptors, ended: told }))
    }

    /// Has a further worker started under `lease`.
    pub(super) async fn start(lease: &Lease) -> Result<Self, Unconfined> {
        let grants = grants(lease.bounds())?;
        let (worker, endpoints) = Self::new(JobKind::Run)?;
        let order = Outgoing::Start { lease: lease.id(), grants, endpoints };
        lease.send(order).await.map_err(cannot("start a worker"))?;
        Ok(worker)
    }

    /// Tells a worker what to do next.
    pub(super) async fn tell(&mut self, plan: &Plan) {
        // A worker that is gone already says why in its reply.
        let _ = self.socket.write_all(&plan::frame(plan)).await;
    }

    /// Passes on a piece of an archive, as fast as it is taken.
    pub(super) async fn pass_on(&mut self, piece: &[u8]) -> io::Result<()> {
        let archive = self.archive.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        archive.write_all(piece).await
    }

    /// The archive is complete.
    pub(super) fn complete(&mut self) {
        self.archive = None;
    }

    /// The worker's next reply and what came with it; `None` at the end.
    pub(super) async fn reply(&mut self) -> io::Result<Option<(Answer, Vec<OwnedFd>)>> {
        reply(&self.socket, &mut self.buffer).await
    }

    /// Waits for the end of a command: told by its guard, if it has one, or else
    /// by the spawner. May be left and called again, until it has returned.
    pub(super) async fn wait(&mut self) -> Result<WorkerEnded, Unconfined> {
        loop {
            tokio::select! {
                // What a worker says comes before its end, and is heard first.
                biased;
                reply = reply(&self.socket, &mut self.buffer), if !self.silent => match reply {
                    Ok(Some((Answer::Exited(Exited { status, used }), _))) => {
                        return Ok(WorkerEnded { status, used, ..WorkerEnded::default() });
                    }
                    Ok(Some((answer, _))) => self.last = Some(answer),
                    Ok(None) | Err(_) => self.silent = true,
                },
                ended = &mut self.ended => return ended.map_err(cannot("go on")),
            }
        }
    }

    /// What a worker said last, if it could not become the command after all.
    pub(super) fn take_last_answer(&mut self) -> Option<Answer> {
        self.last.take()
    }

    /// Why a worker ended without having been asked to.
    pub(super) async fn unexpected_end(&mut self) -> Unconfined {
        match (&mut self.ended).await {
            Ok(ended) if !ended.failure.is_empty() => Unconfined { reason: ended.failure },
            Ok(ended) => {
                let reason = format!("finish: the worker ended with status {}", ended.status);
                Unconfined { reason }
            }
            Err(_gone) => Unconfined { reason: "go on: the spawner is gone".to_owned() },
        }
    }
}

async fn reply(
    socket: &UnixStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(Answer, Vec<OwnedFd>)>> {
    let mut descriptors = Vec::new();
    loop {
        if let Some(reply) = take_frame(buffer)? {
            return Ok(reply.answer.map(|answer| (answer, descriptors)));
        }
        let receive = || receive(socket.as_fd(), buffer);
        let received = match socket.async_io(Interest::READABLE, receive).await {
            // A worker that never was has not read its plan.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            received => received?,
        };
        let Some(more) = received else { return Ok(None) };
        descriptors.extend(more);
    }
}

/// Adds what is there to `buffer`, and returns what came with it.
fn receive(socket: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut piece = [0; PIECE];
    let (length, descriptors) = channel::receive_bytes(socket, &mut piece)?;
    buffer.extend_from_slice(piece.get(..length).unwrap_or_default());
    Ok((length > 0).then_some(descriptors))
}

fn take_frame(buffer: &mut Vec<u8>) -> io::Result<Option<Reply>> {
    let Some((head, body)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let length = plan::frame_length(*head)?;
    let Some(body) = body.get(..length) else { return Ok(None) };
    let reply = Reply::decode(body).map_err(io::Error::other)?;
    buffer.drain(..head.len() + length);
    Ok(Some(reply))
}

impl From<Failed> for Unconfined {
    fn from(failed: Failed) -> Self {
        Self { reason: failed.step }
    }
}

/// What the spawner is asked for, if it fits into an order.
pub(super) fn grants(bounds: &Bounds) -> Result<Grants, Unconfined> {
    let grants = bounds.grants();
    if grants.encoded_len() > MAX_GRANTS {
        return Err(cannot("start a worker")("its paths to read are too many or too long"));
    }
    Ok(grants)
}

/// Says what an error of the supervisor's own kept from happening.
pub(super) fn cannot<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> Unconfined {
    move |error| Unconfined { reason: format!("{what}: {}", error.into()) }
}
