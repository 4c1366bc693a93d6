//! The pipe of a command's standard output or standard error.

use std::{
    future::pending,
    io::{self, IoSliceMut},
    os::fd::{AsFd, OwnedFd},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::{
    fs::{FileType, fstat},
    io::{Errno, ReadWriteFlags, ioctl_fionbio, ioctl_fionread, preadv2, read, retry_on_intr},
};
use tokio::{net::unix::pipe, task::coop::consume_budget};

/// Bytes read from a pipe at a time: the default capacity of a pipe.
pub(super) const PIECE: usize = 64 * 1024;

/// The end of a pipe from which we read.
#[derive(Debug)]
pub(super) enum OutputPipe {
    /// The runtime does not watch it: each write of the command would wake this
    /// process instead of letting the command go on.
    Unwatched(OwnedFd),
    /// The runtime notices when there is something to read.
    Watched(pipe::Receiver),
    /// The stream has ended.
    Closed,
}

impl OutputPipe {
    /// Takes a descriptor that a worker has sent, which may be of anything.
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        if !FileType::from_raw_mode(fstat(&pipe)?.st_mode).is_fifo() {
            return Err(io::Error::other("it is not a pipe"));
        }
        ioctl_fionbio(&pipe, true)?;
        Ok(Self::Unwatched(pipe))
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// Appends available bytes to `into`; waits until there are some, or the stream
    /// ends.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        self.watch()?;
        let Self::Watched(open) = self else { return pending().await };
        loop {
            open.readable().await?;
            // A command may write for ever, and these two calls never let others have a turn.
            consume_budget().await;
            match open.try_io(|| append(&*open, into)) {
                Ok(0) => *self = Self::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }

    /// Appends a piece that the pipe holds now. Returns false if it is empty and
    /// open, or was closed before.
    pub(super) fn read_now(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let read = match self {
            Self::Unwatched(open) => append(&*open, into),
            Self::Watched(open) => append(&*open, into),
            Self::Closed => return Ok(false),
        };
        match read {
            Ok(0) => *self = Self::Closed,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn watch(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Unwatched(pipe) => Self::Watched(pipe::Receiver::from_owned_fd_unchecked(pipe)?),
            watched @ (Self::Watched(_) | Self::Closed) => watched,
        };
        Ok(())
    }
}

/// Appends a piece and returns its length. Never waits, even if the other end has made the
/// pipe blocking again: a worker that its tenant controls can.
fn append(pipe: impl AsFd, into: &mut Vec<u8>) -> io::Result<usize> {
    let length = into.len();
    // Only a read tells whether an empty pipe is closed.
    let held = usize::try_from(ioctl_fionread(&pipe)?).unwrap_or(PIECE).clamp(1, PIECE);
    into.resize(length + held, 0);
    let piece = into.get_mut(length..).unwrap_or_default();
    let read = retry_on_intr(|| read_available(&pipe, piece));
    into.truncate(length + read.unwrap_or_default());
    Ok(read?)
}

fn read_available(pipe: impl AsFd, piece: &mut [u8]) -> Result<usize, Errno> {
    // From the current position, as a pipe has no other.
    let read = preadv2(&pipe, &mut [IoSliceMut::new(piece)], u64::MAX, ReadWriteFlags::NOWAIT);
    if read == Err(Errno::OPNOTSUPP) { read_if_ready(pipe, piece) } else { read }
}

/// Before Linux 6.4. Blocks if the other end takes the bytes in between.
fn read_if_ready(pipe: impl AsFd, piece: &mut [u8]) -> Result<usize, Errno> {
    let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    match poll(&mut ready, PollTimeout::ZERO) {
        Ok(0) => Err(Errno::AGAIN),
        Ok(_) => read(pipe, piece),
        Err(error) => Err(Errno::from_raw_os_error(error as i32)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, sync::mpsc::channel, thread, time::Duration};

    use tokio::task::yield_now;

    use super::*;
    use crate::skip::soon;

    #[tokio::test]
    async fn output_that_the_runtime_has_not_noticed_is_read() {
        for is_watched in [false, true] {
            let (reader, mut writer) = io::pipe().unwrap();
            let mut pipe = OutputPipe::new(reader.into()).unwrap();
            if is_watched {
                pipe.watch().unwrap();
            }
            let mut output = Vec::new();
            assert!(!pipe.read_now(&mut output).unwrap(), "empty and open");
            writer.write_all(b"out").unwrap();
            assert!(pipe.read_now(&mut output).unwrap());
            assert_eq!(output, b"out");
            drop(writer);
            assert!(soon(|| pipe.read_now(&mut output).unwrap() && !pipe.is_open()));
            assert!(!pipe.read_now(&mut output).unwrap());
        }
    }

    #[test]
    fn a_pipe_that_is_made_blocking_does_not_block() {
        let (reader, writer) = io::pipe().unwrap();
        let shared = reader.try_clone().unwrap();
        let mut pipe = OutputPipe::new(reader.into()).unwrap();
        ioctl_fionbio(&shared, false).unwrap();
        // Ends the wait of a read that blocks.
        let (done, is_done) = channel();
        let late = thread::spawn(move || {
            let _ = is_done.recv_timeout(Duration::from_mins(1));
            drop(writer);
        });
        let mut piece = [0; 1];
        assert_eq!(read_if_ready(&shared, &mut piece), Err(Errno::AGAIN));
        assert!(!pipe.read_now(&mut Vec::new()).unwrap() && pipe.is_open());
        done.send(()).unwrap();
        late.join().unwrap();
        assert!(soon(|| read_if_ready(&shared, &mut piece) == Ok(0)));
    }

    #[test]
    fn only_pipes_are_read() {
        let error = OutputPipe::new(File::open("/dev/zero").unwrap().into()).unwrap_err();
        assert_eq!(error.to_string(), "it is not a pipe");
    }

    #[tokio::test]
    async fn output_that_never_stops_does_not_keep_the_thread() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = OutputPipe::new(reader.into()).unwrap();
        let read_much = async {
            for _ in 0..10_000 {
                writer.write_all(b"more").unwrap();
                pipe.read(&mut Vec::new()).await.unwrap();
            }
        };
        tokio::select! {
            biased;
            () = read_much => panic!("nothing else had a turn"),
            () = yield_now() => {}
        }
    }

    #[tokio::test]
    async fn a_pipe_is_watched_when_somebody_waits_for_it() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = OutputPipe::new(reader.into()).unwrap();
        let mut output = Vec::new();
        writer.write_all(b"early").unwrap();
        pipe.read(&mut output).await.unwrap();
        let late = tokio::task::spawn_blocking(move || writer.write_all(b" late"));
        pipe.read(&mut output).await.unwrap();
        late.await.unwrap().unwrap();
        pipe.read(&mut output).await.unwrap();
        assert_eq!((output.as_slice(), pipe.is_open()), (&b"early late"[..], false));
    }
}
