//! The supervisor's handle of a worker.

use std::{
    io,
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::ExitStatus,
    time::SystemTime,
};

use bytes::{Buf, BytesMut};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::signal::Signal,
    unistd::pipe2,
};
use prost::Message;
use rustix::{fs::sendfile, io::ioctl_fionbio};
use thiserror::Error;
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe,
    sync::oneshot::{self, error::RecvError},
};

use super::socket::Socket;
use crate::{
    kernel::full::is_full,
    wire::{
        channel::{self, NO_ROOM, Received},
        message::JobKind,
        plan::{self, Answer, Exited, Failed, MAX_REPLY, OPEN_REPOSITORY, Plan, Reply},
        refusal::Observed,
    },
};

/// A worker could not be confined, so it ran nothing.
#[derive(Debug, Error)]
#[error("the sandbox could not {reason}")]
pub struct Unconfined {
    reason: String,
    /// The error number; 0 if it is not known.
    errno: i32,
    /// SIGKILL ended the worker.
    is_killed: bool,
}

impl Unconfined {
    /// True if the work volume has no space for bytes or files.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full(&io::Error::from_raw_os_error(self.errno))
    }

    /// True if the repository is gone, or cannot be read any more.
    #[must_use]
    pub fn is_of_lost_repository(&self) -> bool {
        let errors = [Errno::ENOENT, Errno::ESTALE, Errno::EIO];
        self.reason.starts_with(OPEN_REPOSITORY)
            && errors.iter().any(|errno| *errno as i32 == self.errno)
    }

    /// True if SIGKILL ended the worker, as the kernel does for lack of memory.
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed
    }

    pub(super) fn new(reason: String) -> Self {
        Self { reason, errno: 0, is_killed: false }
    }
}

/// The spawner has ended, although the supervisor still needs it.
#[derive(Clone, Copy, Debug, Error)]
#[error("the spawner is gone")]
pub struct SpawnerGone;

/// The report of a worker's end, which arrives once.
pub(super) type End = oneshot::Receiver<Result<Exited, Unconfined>>;

/// A worker, its socket and its exit status.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    /// Time at which it was ordered.
    pub(super) ordered: SystemTime,
    socket: Socket,
    ended: End,
    /// Bytes received that are not a complete reply yet.
    buffer: BytesMut,
    /// Descriptors received, until their reply is read.
    descriptors: Vec<OwnedFd>,
    /// News about the command's processes.
    observed: Observed,
    /// The last reply after the command was started.
    last: Option<Answer>,
    /// Pipe to send the archive through.
    archive: Option<pipe::Sender>,
}

/// The ends that belong to the worker and to the supervisor's link.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// Descriptors for the worker: its socket and, to unpack, the pipe of the
    /// archive.
    pub(super) descriptors: Vec<OwnedFd>,
    /// The link reports the worker's end here.
    pub(super) ended: oneshot::Sender<Result<Exited, Unconfined>>,
}

const SIGKILL: i32 = Signal::SIGKILL as i32;

/// Capacity of a pipe for parts of a file, which it refers to and does not copy. The
/// kernel's default of 64 KiB makes both ends wait for each other after every part.
/// Linux lets a user's pipes have 64 MiB in all, so 128 requests may have this much.
const WIDE_PIPE: i32 = 512 << 10;

/// A worker sends descriptors with one reply only.
const TOO_MANY: &str = "it sent more descriptors than one reply has";

/// Bytes received at a time; replies are far shorter.
const PIECE: usize = 16 * 1024;

/// Pieces of the last news at most: 1 MiB, more than the buffer of a socket holds. A
/// process that the command left behind could go on writing.
const LAST_PIECES: usize = 64;

impl WorkerHandle {
    /// Creates the handle and the endpoints that an order for this worker
    /// carries.
    pub(super) fn new(kind: JobKind) -> Result<(Self, Endpoints), Unconfined> {
        let (socket, theirs) = channel::stream_pair().map_err(cannot("create a socket"))?;
        let socket = Socket::new(socket).map_err(cannot("create a socket"))?;
        let (archive, source) = if kind == JobKind::Unpack {
            let (archive, source) = archive_pipe().map_err(cannot("create a pipe"))?;
            (Some(archive), Some(source))
        } else {
            (None, None)
        };
        let (told, ended) = oneshot::channel();
        let descriptors = [theirs].into_iter().chain(source).collect();
        let worker = Self {
            ordered: SystemTime::now(),
            socket,
            ended,
            buffer: BytesMut::new(),
            descriptors: Vec::new(),
            observed: Observed::default(),
            last: None,
            archive,
        };
        Ok((worker, Endpoints { descriptors, ended: told }))
    }

    /// Sends a plan to the worker.
    pub(super) async fn tell(&mut self, plan: &Plan) {
        // If the worker has ended, its reply or exit status has the reason.
        let _ = self.socket.write_all(&plan::frame(plan)).await;
    }

    /// Sends a plan to the worker, with a descriptor.
    pub(super) async fn tell_with(&mut self, plan: &Plan, carried: BorrowedFd<'_>) {
        let frame = plan::frame(plan);
        let (head, rest) = frame.split_at(size_of::<u32>());
        // If the worker has ended, its reply or exit status has the reason.
        let sent = self.socket.send(|end| channel::send_bytes(end, head, &[carried])).await;
        if sent.is_ok() {
            let _ = self.socket.write_all(rest).await;
        }
    }

    /// Sends a piece of the archive. Waits while the pipe is full.
    pub(super) async fn pass_on(&mut self, piece: &[u8]) -> io::Result<()> {
        let archive = self.archive.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        archive.write_all(piece).await
    }

    /// Lets the pipe of the archive hold more, for parts of a file. If the kernel
    /// refuses it, the parts take longer.
    pub(super) fn widen(&self) {
        if let Some(archive) = &self.archive {
            let _ = fcntl(archive, FcntlArg::F_SETPIPE_SZ(WIDE_PIPE));
        }
    }

    /// Sends a part of a file as a piece of the archive, without copying it.
    pub(super) async fn send(&mut self, file: BorrowedFd<'_>, part: Range<u64>) -> io::Result<()> {
        let archive = self.archive.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut at = part.start;
        while at < part.end {
            archive.writable().await?;
            let left = usize::try_from(part.end - at).unwrap_or(usize::MAX);
            let sent = archive.try_io(|| Ok(sendfile(archive.as_fd(), file, Some(&mut at), left)?));
            match sent {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the archive.
    pub(super) fn complete(&mut self) {
        self.archive = None;
    }

    /// Returns the worker's next reply and its descriptors; `None` at the end.
    pub(super) async fn reply(&mut self) -> io::Result<Option<(Answer, Vec<OwnedFd>)>> {
        let Some((answer, more)) = reply(&self.socket, &mut self.buffer).await? else {
            return Ok(None);
        };
        self.descriptors.extend(more);
        if self.descriptors.len() > channel::MAX_DESCRIPTORS {
            return Err(io::Error::other(TOO_MANY));
        }
        // Two replies may arrive together, and only this one has descriptors.
        let is_theirs = matches!(answer, Answer::Running(_));
        let theirs = if is_theirs { std::mem::take(&mut self.descriptors) } else { Vec::new() };
        Ok(Some((answer, theirs)))
    }

    /// Lets no reply wake this process any more. A last one is read when the command has
    /// ended.
    pub(super) fn unwatch(&mut self) {
        self.socket.unwatch();
    }

    /// Waits for the end of the command. The guard reports it if the tier has
    /// one, otherwise the spawner. The future can be dropped and the method
    /// called again until it has returned once.
    pub(super) async fn wait(&mut self) -> Result<Exited, Unconfined> {
        loop {
            tokio::select! {
                // A reply that arrived before the end is handled first.
                biased;
                reply = reply(&self.socket, &mut self.buffer) => match reply {
                    Ok(Some((Answer::Exited(exited), _))) => return Ok(exited),
                    Ok(Some((Answer::Observed(news), _))) => self.observed.add(news),
                    Ok(Some((answer, _))) => self.last = Some(answer),
                    Ok(None) | Err(_) => self.socket = Socket::Closed,
                },
                ended = &mut self.ended => return ended.map_err(spawner_gone)?,
            }
        }
    }

    /// The news about the command's processes so far.
    pub(super) fn take_observed(&mut self) -> Observed {
        self.read_rest();
        std::mem::take(&mut self.observed)
    }

    /// The last reply of a worker that failed to execute the command.
    pub(super) fn take_last_answer(&mut self) -> Option<Answer> {
        self.read_rest();
        self.last.take()
    }

    /// Reads the replies that the runtime has not noticed yet.
    fn read_rest(&mut self) {
        for _ in 0..LAST_PIECES {
            let Some(socket) = self.socket.descriptor() else { break };
            match receive(socket, &mut self.buffer) {
                Ok(Some(_)) => {}
                Ok(None) => self.socket = Socket::Closed,
                Err(_nothing) => break,
            }
        }
        while let Ok(Some(reply)) = take_frame(&mut self.buffer) {
            match reply.answer {
                Some(Answer::Observed(news)) => self.observed.add(news),
                // The spawner has reported it too.
                Some(Answer::Exited(_)) => {}
                answer => self.last = answer.or(self.last.take()),
            }
        }
    }

    /// Takes the report of its end, for somebody who waits longer.
    pub(super) fn take_end(&mut self) -> End {
        std::mem::replace(&mut self.ended, oneshot::channel().1)
    }

    /// Tells a worker that waits for a plan that none will come, and waits for its end.
    pub(super) async fn dismiss(self) -> Result<(), Unconfined> {
        let Self { socket, ended, .. } = self;
        drop(socket);
        ended.await.map(drop).map_err(spawner_gone)
    }

    /// Returns the reason why a worker ended without an order.
    pub(super) async fn unexpected_end(&mut self) -> Unconfined {
        match (&mut self.ended).await.map_err(spawner_gone).flatten() {
            Ok(Exited { status, .. }) => {
                let status = ExitStatus::from_raw(status);
                let is_killed = status.signal() == Some(SIGKILL);
                let reason = format!("finish: the worker ended with {status}");
                Unconfined { is_killed, ..Unconfined::new(reason) }
            }
            Err(error) => error,
        }
    }
}

async fn reply(
    socket: &Socket,
    buffer: &mut BytesMut,
) -> io::Result<Option<(Answer, Vec<OwnedFd>)>> {
    let mut descriptors = Vec::new();
    loop {
        if let Some(reply) = take_frame(buffer)? {
            return Ok(reply.answer.map(|answer| (answer, descriptors)));
        }
        let received = match socket.receive(|end| receive(end, buffer)).await {
            // The worker was never forked, so nobody has read its plan.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            received => received?,
        };
        let Some(more) = received else { return Ok(None) };
        descriptors.extend(more);
        if descriptors.len() > channel::MAX_DESCRIPTORS {
            return Err(io::Error::other(TOO_MANY));
        }
    }
}

/// Creates the pipe of an archive. Reading from the worker's end blocks.
fn archive_pipe() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (source, archive) = pipe2(OFlag::O_CLOEXEC)?;
    ioctl_fionbio(&archive, true)?;
    Ok((pipe::Sender::from_owned_fd_unchecked(archive)?, source))
}

/// Appends available bytes to `buffer` and returns the descriptors that came
/// with them; `None` at the end.
fn receive(socket: impl AsFd, buffer: &mut BytesMut) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut piece = [0; PIECE];
    let Received { length, descriptors, has_lost } = channel::receive_bytes(socket, &mut piece)?;
    if has_lost {
        return Err(io::Error::other(format!("of a reply, {NO_ROOM}")));
    }
    buffer.extend_from_slice(piece.get(..length).unwrap_or_default());
    Ok((length > 0).then_some(descriptors))
}

/// Takes a complete reply from the buffer. The others are not moved: a worker may send
/// many short ones.
fn take_frame(buffer: &mut BytesMut) -> io::Result<Option<Reply>> {
    let Some((head, body)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let length = plan::frame_length(*head, MAX_REPLY)?;
    let Some(body) = body.get(..length) else { return Ok(None) };
    let reply = Reply::decode(body).map_err(io::Error::other)?;
    buffer.advance(size_of_val(head) + length);
    Ok(Some(reply))
}

impl From<Failed> for Unconfined {
    fn from(failed: Failed) -> Self {
        Self { reason: failed.step, errno: failed.errno, is_killed: false }
    }
}

/// The spawner reports the end of every worker before it ends itself.
fn spawner_gone(_: RecvError) -> Unconfined {
    cannot("continue")(SpawnerGone)
}

/// Maps an error of the supervisor itself to [`Unconfined`].
pub(super) fn cannot<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> Unconfined {
    move |error| Unconfined::new(format!("{what}: {}", error.into()))
}

#[cfg(test)]
mod tests;
