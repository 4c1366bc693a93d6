//! The pipe of a command's standard output or standard error.

use std::{future::pending, io, os::fd::OwnedFd};

use rustix::{
    buffer::spare_capacity,
    io::{Errno, ioctl_fionbio, retry_on_intr},
};
use tokio::{io::AsyncReadExt, net::unix::pipe};

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
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
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
        into.reserve(PIECE);
        if open.read_buf(into).await? == 0 {
            *self = Self::Closed;
        }
        Ok(())
    }

    /// Appends a piece that the pipe holds now. Returns false if it is empty and
    /// open, or was closed before.
    pub(super) fn read_now(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        into.reserve(PIECE);
        let read = match self {
            Self::Unwatched(open) => {
                retry_on_intr(|| rustix::io::read(&*open, spare_capacity(into)))
            }
            Self::Watched(open) => retry_on_intr(|| rustix::io::read(&*open, spare_capacity(into))),
            Self::Closed => return Ok(false),
        };
        match read {
            Ok(0) => *self = Self::Closed,
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
            assert!(pipe.read_now(&mut output).unwrap() && !pipe.is_open());
            assert!(!pipe.read_now(&mut output).unwrap());
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
