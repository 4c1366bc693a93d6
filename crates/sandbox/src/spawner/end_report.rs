//! Messages from a process that ends a lease, and the spawner's answer.
//!
//! Their size is fixed and they contain only numbers, because the process has
//! handled files of a tenant when it sends some of them.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

/// Most process IDs in one message.
pub(super) const MAX_PIDS: usize = 8;

const LENGTH: usize = 4 * (1 + MAX_PIDS);

const WAITING: u32 = 1;
const PROCESSES: u32 = 2;
const FILES: u32 = 3;

/// The spawner's permission to work on files for one turn.
const TURN: [u8; 1] = [1];

/// A message from a process that ends a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndReport {
    /// It has killed all processes and waits for its turn to work on files.
    Waiting,
    /// Process IDs of processes that are left.
    Processes(Vec<u32>),
    /// Files are left; this was the first error.
    Files(i32),
}

impl EndReport {
    /// Sends this message. An error means that the spawner is gone.
    pub(super) fn send(&self, spawner: impl AsFd) -> io::Result<()> {
        send(spawner, &self.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn encode(&self) -> [u8; LENGTH] {
        let mut numbers = [0_u32; 1 + MAX_PIDS];
        match self {
            Self::Waiting => numbers[0] = WAITING,
            Self::Processes(pids) => {
                numbers[0] = PROCESSES;
                for (number, pid) in numbers.iter_mut().skip(1).zip(pids) {
                    *number = *pid;
                }
            }
            Self::Files(errno) => (numbers[0], numbers[1]) = (FILES, errno.unsigned_abs()),
        }
        let mut bytes = [0; LENGTH];
        for (place, number) in bytes.chunks_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: [u8; LENGTH]) -> Option<Self> {
        let number = |place: &[u8]| place.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let mut numbers = bytes.chunks(4).map(number);
        match numbers.next()? {
            WAITING => Some(Self::Waiting),
            PROCESSES => Some(Self::Processes(numbers.take_while(|pid| *pid > 0).collect())),
            FILES => Some(Self::Files(i32::try_from(numbers.next()?).unwrap_or_default())),
            _ => None,
        }
    }
}

/// The spawner's end of the connection to such a process.
#[derive(Debug)]
pub(super) struct EnderSocket {
    socket: OwnedFd,
    is_open: bool,
}

impl EnderSocket {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, is_open: true }
    }

    /// Returns the next message, or `None` if there is none yet.
    pub(super) fn receive(&mut self) -> Option<EndReport> {
        let mut bytes = [0; LENGTH];
        match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((LENGTH, _)) => EndReport::decode(bytes),
            Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => None,
            Ok((0, _)) | Err(_) => {
                self.is_open = false;
                None
            }
        }
    }

    /// The socket, while a message may come. A closed one is always readable: to
    /// watch it until the process is reaped would keep a processor busy.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.is_open.then(|| self.socket.as_fd())
    }

    /// Gives the process its turn. An error means that it has ended.
    pub(super) fn give_turn(&self) -> io::Result<()> {
        send(&self.socket, &TURN, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }
}

/// Waits for the turn. Returns false if the spawner is gone.
pub(super) fn wait_for_turn(spawner: impl AsFd) -> bool {
    let mut bytes = [0; TURN.len()];
    loop {
        match recv(&spawner, &mut bytes, RecvFlags::empty()) {
            Ok((length, _)) => return length > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{skip::soon, wire::channel::packet_pair};

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (spawner, process) = packet_pair().unwrap();
        let mut ender = EnderSocket::new(spawner);
        assert_eq!(ender.receive(), None);
        let pids = (1..12).collect();
        for report in [EndReport::Waiting, EndReport::Processes(pids), EndReport::Files(13)] {
            report.send(&process).unwrap();
        }
        assert_eq!(ender.receive(), Some(EndReport::Waiting));
        assert_eq!(ender.receive(), Some(EndReport::Processes((1..9).collect())));
        assert_eq!(ender.receive(), Some(EndReport::Files(13)));
        send(&process, &[0; LENGTH], SendFlags::empty()).unwrap();
        assert_eq!(ender.receive(), None, "an unknown kind");
        assert!(ender.watched().is_some());
    }

    #[test]
    fn a_socket_is_not_watched_after_its_process_has_ended() {
        let (spawner, process) = packet_pair().unwrap();
        let mut ender = EnderSocket::new(spawner);
        EndReport::Waiting.send(&process).unwrap();
        drop(process);
        assert_eq!(ender.receive(), Some(EndReport::Waiting), "sent before the end");
        assert!(soon(|| ender.receive().is_none() && ender.watched().is_none()));
    }

    #[test]
    fn a_process_waits_for_its_turn_until_the_spawner_is_gone() {
        let (spawner, process) = packet_pair().unwrap();
        let ender = EnderSocket::new(spawner);
        ender.give_turn().unwrap();
        assert!(wait_for_turn(&process));
        drop(ender);
        assert!(!wait_for_turn(&process));
    }
}
