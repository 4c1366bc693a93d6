//! Messages from a process that ends a lease, and the spawner's answer.
//!
//! Their size is fixed and they contain only numbers, because the process has
//! handled files of a tenant when it sends some of them.

use std::{io, os::fd::AsFd};

use rustix::net::{RecvFlags, SendFlags, recv, send};

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
pub(super) enum Word {
    /// It has killed all processes and waits for its turn to work on files.
    Waiting,
    /// These processes are left.
    Processes(Vec<u32>),
    /// Files are left; this was the first error.
    Files(i32),
}

impl Word {
    /// Sends this message. An error means that the spawner is gone.
    pub(super) fn tell(&self, spawner: impl AsFd) -> io::Result<()> {
        send(spawner, &self.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Returns the next message, or `None` if there is none yet.
    pub(super) fn hear(process: impl AsFd) -> Option<Self> {
        let mut bytes = [0; LENGTH];
        let (length, _) = recv(process, &mut bytes, RecvFlags::DONTWAIT).ok()?;
        (length == LENGTH).then(|| Self::decode(bytes)).flatten()
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

/// Gives a process its turn. An error means that it has ended.
pub(super) fn give_turn(process: impl AsFd) -> io::Result<()> {
    send(process, &TURN, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Waits for the turn. Returns false if the spawner is gone.
pub(super) fn wait_for_turn(spawner: impl AsFd) -> bool {
    let mut bytes = [0; TURN.len()];
    loop {
        match recv(&spawner, &mut bytes, RecvFlags::empty()) {
            Ok((length, _)) => return length > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::channel::packet_pair;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (spawner, process) = packet_pair().unwrap();
        assert_eq!(Word::hear(&spawner), None);
        let pids = (1..12).collect();
        for word in [Word::Waiting, Word::Processes(pids), Word::Files(13)] {
            word.tell(&process).unwrap();
        }
        assert_eq!(Word::hear(&spawner), Some(Word::Waiting));
        assert_eq!(Word::hear(&spawner), Some(Word::Processes((1..9).collect())));
        assert_eq!(Word::hear(&spawner), Some(Word::Files(13)));
        send(&process, &[0; LENGTH], SendFlags::empty()).unwrap();
        assert_eq!(Word::hear(&spawner), None, "an unknown kind");
    }

    #[test]
    fn a_process_waits_for_its_turn_until_the_spawner_is_gone() {
        let (spawner, process) = packet_pair().unwrap();
        give_turn(&spawner).unwrap();
        assert!(wait_for_turn(&process));
        drop(spawner);
        assert!(!wait_for_turn(&process));
    }
}
