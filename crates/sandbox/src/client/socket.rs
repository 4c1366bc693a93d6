//! The supervisor's end of a socket of the sandbox.

use std::{
    future::pending,
    io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::net::{SendFlags, send};
use tokio::{net::unix::pipe, task::coop::consume_budget, time::sleep};

use crate::wire::transient::{self, Attempts};

/// Pause after an attempt to send for which there was no room. The other end has left
/// some 200 KB unread then (`net.core.wmem_default`), which is rare.
const PAUSE: Duration = Duration::from_millis(1);

/// A socket that never wakes this process because there is room to send: each message
/// that the other end reads makes room.
#[derive(Debug)]
pub(super) enum Socket {
    /// The runtime notices what arrives. It watches the reading end of a pipe for
    /// nothing else, and tokio's type for that works for sockets too.
    Watched(pipe::Receiver),
    /// The runtime notices nothing.
    Unwatched(OwnedFd),
    /// Nothing more arrives.
    Closed,
}

impl Socket {
    /// Watches an end of a socket.
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&end, true)?;
        Ok(Self::Watched(pipe::Receiver::from_owned_fd_unchecked(end)?))
    }

    /// Lets the runtime notice nothing more. The descriptor can still be read.
    pub(super) fn unwatch(&mut self) {
        *self = match mem::replace(self, Self::Closed) {
            Self::Watched(watched) => {
                watched.into_nonblocking_fd().map_or(Self::Closed, Self::Unwatched)
            }
            other @ (Self::Unwatched(_) | Self::Closed) => other,
        };
    }

    /// The descriptor; `None` if nothing more arrives.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Watched(watched) => Some(watched.as_fd()),
            Self::Unwatched(end) => Some(end.as_fd()),
            Self::Closed => None,
        }
    }

    /// Calls `receive` until there is something to receive; without end if the runtime
    /// does not notice that. Transient errors are errors only if they last.
    pub(super) async fn receive<T>(
        &self,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Self::Watched(watched) = self else { return pending().await };
        let mut attempts = Attempts::default();
        loop {
            watched.readable().await?;
            // A worker may send for ever, and these two calls never let others have a turn.
            consume_budget().await;
            match watched.try_io(|| receive(watched.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if attempts.may_repeat(&error) => sleep(transient::PAUSE).await,
                done => return done,
            }
        }
    }

    /// Calls `send` until there is room for what it sends, or nobody to read it. The
    /// caller limits the wait, by its own deadline or by dropping the future. Transient
    /// errors are errors only if they last.
    pub(super) async fn send<T>(
        &self,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let end = self.descriptor().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut attempts = Attempts::default();
        loop {
            match send(end) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(PAUSE).await,
                Err(error) if attempts.may_repeat(&error) => sleep(transient::PAUSE).await,
                done => return done,
            }
        }
    }

    /// Sends bytes to a stream.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send(|end| Ok(send(end, bytes, SendFlags::NOSIGNAL)?)).await?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::{errno::Errno, poll::PollFlags};
    use rustix::{
        buffer::spare_capacity,
        fs::fstat,
        io::read,
        net::{Shutdown, shutdown},
    };
    use tokio::{task::yield_now, time::timeout};

    use super::*;
    use crate::wire::channel::stream_pair;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// Longer than what fits into the buffer of a socket.
    const LONG: usize = 8 << 20;

    /// The events for which the runtime watches a socket; `None` if it does not.
    fn watched(inode: u64) -> Option<PollFlags> {
        let of_socket = format!(" ino:{inode:x} ");
        let all = fs::read_dir("/proc/self/fdinfo").unwrap();
        // The descriptors of other tests come and go.
        let mut all = all.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
        all.find_map(|text| {
            let line = text.lines().find(|line| line.contains(&of_socket))?;
            let events = line.split_once("events:")?.1.split_whitespace().next()?;
            let events = u32::from_str_radix(events, 16).unwrap();
            PollFlags::from_bits((events & 0xff).try_into().unwrap())
        })
    }

    #[tokio::test]
    async fn the_runtime_is_not_told_of_room() {
        let (ours, _theirs) = stream_pair().unwrap();
        let inode = fstat(&ours).unwrap().st_ino;
        let mut socket = Socket::new(ours).unwrap();
        let events = watched(inode).unwrap();
        assert!(events.contains(PollFlags::POLLIN) && !events.contains(PollFlags::POLLOUT));
        socket.unwatch();
        assert_eq!(watched(inode), None);
        assert_eq!(fstat(socket.descriptor().unwrap()).unwrap().st_ino, inode);
    }

    #[tokio::test]
    async fn what_has_no_room_is_sent_later() {
        let (ours, theirs) = stream_pair().unwrap();
        let (sender, reader) = (Socket::new(ours).unwrap(), Socket::new(theirs).unwrap());
        let sent = vec![7; LONG];
        let mut received = Vec::with_capacity(LONG);
        let receive = async {
            while received.len() < LONG {
                let read = |end: BorrowedFd<'_>| Ok(read(end, spare_capacity(&mut received))?);
                reader.receive(read).await?;
            }
            Ok(())
        };
        let both = async { tokio::try_join!(sender.write_all(&sent), receive) };
        timeout(PATIENCE, both).await.unwrap().unwrap();
        assert!(received == sent);
    }

    #[tokio::test]
    async fn what_never_stops_arriving_does_not_keep_the_thread() {
        let (ours, theirs) = stream_pair().unwrap();
        let socket = Socket::new(ours).unwrap();
        rustix::io::write(&theirs, b"more").unwrap();
        let receive_much = async {
            for _ in 0..10_000 {
                socket.receive(|_unread| Ok(())).await.unwrap();
            }
        };
        tokio::select! {
            biased;
            () = receive_much => panic!("nothing else had a turn"),
            () = yield_now() => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_memory_delays_messages_and_loses_none() {
        let (ours, theirs) = stream_pair().unwrap();
        let (sender, reader) = (Socket::new(ours).unwrap(), Socket::new(theirs).unwrap());
        let mut lacks = [Errno::ENOBUFS, Errno::ENOMEM].into_iter();
        let write = |end: BorrowedFd<'_>| match lacks.next() {
            Some(errno) => Err(errno.into()),
            None => Ok(rustix::io::write(end, b"order")?),
        };
        sender.send(write).await.unwrap();
        let (mut lacks, mut received) = ([Errno::ENOMEM].into_iter(), Vec::with_capacity(5));
        let read = |end: BorrowedFd<'_>| match lacks.next() {
            Some(errno) => Err(errno.into()),
            None => Ok(read(end, spare_capacity(&mut received))?),
        };
        reader.receive(read).await.unwrap();
        assert_eq!(received, b"order");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_memory_that_stays_is_an_error() {
        let (ours, _theirs) = stream_pair().unwrap();
        let socket = Socket::new(ours).unwrap();
        let lacks = |_: BorrowedFd<'_>| Err::<(), _>(Errno::ENOBUFS.into());
        let error = socket.send(lacks).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ENOBUFS as i32));
    }

    #[tokio::test]
    async fn an_end_that_nobody_reads_is_an_error() {
        let (ours, theirs) = stream_pair().unwrap();
        let socket = Socket::new(ours).unwrap();
        shutdown(&theirs, Shutdown::Both).unwrap();
        let sent = timeout(PATIENCE, socket.write_all(b"a plan")).await.unwrap();
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let closed = Socket::Closed.write_all(b"a plan").await.unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::BrokenPipe);
    }
}
