//! A process that removes the files of ended requests, one request after the other.
//!
//! It lives as long as the spawner, so that most requests end without a new process.
//! It gets a request only when no process of it is left, sends no signals, and gives
//! up a request with many files or with caches: a standby process ends that one.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, Uid, geteuid, setfsuid},
};
use prost::Message;
use rustix::{
    net::{RecvFlags, SendFlags, recv, send},
    thread::CapabilitySet,
};

use super::uid_pool::UidPool;
use crate::{
    kernel::{
        fork::{SingleThreaded, close_all_but},
        limits::lower_priority,
        parent::end_with,
        policy::restrict_changes,
        privilege::keep_capabilities,
    },
    wire::channel,
    worker::remove::{self, STOPPED},
};

/// Longest work on the files of one request; others wait meanwhile. Two thousand files
/// in memory take less.
const TURN: Duration = Duration::from_millis(20);

/// Most requests that wait for it. Further ones are ended by standby processes.
const MOST: usize = 32;

/// Longest wait for an answer, for example while a volume does not answer. Standby
/// processes then end the requests.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shortest time between two attempts to start it.
const START_AGAIN: Duration = Duration::from_secs(1);

/// Bytes of an answer: the slot, and whether all files are gone.
const ANSWER: usize = 8;

/// The spawner's end.
#[derive(Debug)]
pub(super) struct Cleaner {
    fork: SingleThreaded,
    process: Option<Running>,
    /// Slots whose files it removes.
    slots: BTreeSet<usize>,
    started: Option<Instant>,
    /// Time of its last answer, or of the first order after it.
    moved: Instant,
}

#[derive(Debug)]
struct Running {
    pid: Pid,
    socket: OwnedFd,
}

/// Its rights, as far as it has any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights<'r> {
    /// UIDs of owners; `None` if all files belong to the spawner's UID.
    pub(super) uids: Option<&'r UidPool>,
    /// The only directory below which it may change files; `None` without Landlock.
    pub(super) within: Option<&'r Path>,
}

/// An order to remove the files in a workspace. The directory of workspaces comes
/// with it.
#[derive(Clone, PartialEq, Message)]
struct CleanOrder {
    #[prost(uint32, tag = "1")]
    slot: u32,
    /// Owner of the files; `None` for the spawner's UID.
    #[prost(uint32, optional, tag = "2")]
    owner: Option<u32>,
    /// Name in the directory of workspaces.
    #[prost(string, tag = "3")]
    workspace: String,
}

/// Files to remove.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftover<'l> {
    pub(super) slot: usize,
    pub(super) owner: Option<Uid>,
    pub(super) workspace: &'l str,
    /// Directory of all workspaces.
    pub(super) root: BorrowedFd<'l>,
}

impl Cleaner {
    pub(super) fn new(fork: SingleThreaded) -> Self {
        let (slots, moved) = (BTreeSet::new(), Instant::now());
        Self { fork, process: None, slots, started: None, moved }
    }

    /// Starts the process, unless it runs or an attempt has just failed.
    pub(super) fn start(&mut self, rights: Rights<'_>) -> io::Result<()> {
        let is_early = self.started.is_some_and(|started| started.elapsed() < START_AGAIN);
        if self.process.is_some() || is_early {
            return Ok(());
        }
        self.started = Some(Instant::now());
        let (socket, theirs) = channel::packet_pair()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let spawner = Pid::this();
        let pid = self.fork.fork(|| i32::from(work(&theirs, spawner, rights).is_err()))?;
        self.process = Some(Running { pid, socket });
        Ok(())
    }

    /// Orders to remove files. An error means that somebody else must.
    pub(super) fn order(&mut self, files: Leftover<'_>, rights: Rights<'_>) -> io::Result<()> {
        self.start(rights)?;
        let running = self.process.as_ref().filter(|_| self.slots.len() < MOST);
        let running = running.ok_or(io::ErrorKind::ResourceBusy)?;
        let order = CleanOrder {
            slot: u32::try_from(files.slot).map_err(io::Error::other)?,
            owner: files.owner.map(Uid::as_raw),
            workspace: files.workspace.to_owned(),
        };
        channel::send(&running.socket, &order, &[files.root])?;
        if self.slots.is_empty() {
            self.moved = Instant::now();
        }
        self.slots.insert(files.slot);
        Ok(())
    }

    /// The next slot that it has finished, and whether all files are gone.
    pub(super) fn hear(&mut self) -> Option<(usize, bool)> {
        let running = self.process.as_ref()?;
        let mut answer = [0; ANSWER];
        match recv(&running.socket, &mut answer, RecvFlags::DONTWAIT) {
            Ok((ANSWER, _)) => {
                self.moved = Instant::now();
                let (slot, is_empty) = decode(answer)?;
                self.slots.remove(&slot).then_some((slot, is_empty))
            }
            // Its end is noticed when it is reaped.
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns true while it works on the files of a slot.
    pub(super) fn works_on(&self, slot: usize) -> bool {
        self.slots.contains(&slot)
    }

    /// Returns true if this is its process.
    pub(super) fn is(&self, pid: Pid) -> bool {
        self.process.as_ref().is_some_and(|running| running.pid == pid)
    }

    /// The process has ended. Returns the slots with which it did not finish.
    pub(super) fn ended(&mut self) -> BTreeSet<usize> {
        self.process = None;
        std::mem::take(&mut self.slots)
    }

    /// Time at which its answer is overdue.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.slots.is_empty()).then(|| self.moved + PATIENCE)
    }

    /// Gives a process up whose answer is overdue. Returns the slots with which it did
    /// not finish. If it still removes files of one, those have a name that is never
    /// used again.
    pub(super) fn give_up(&mut self, now: Instant) -> BTreeSet<usize> {
        if self.due().is_none_or(|due| due > now) {
            return BTreeSet::new();
        }
        if let Some(running) = &self.process {
            // If the kernel cannot end it now, it ends later.
            let _ = kill(running.pid, Signal::SIGKILL);
        }
        self.ended()
    }

    /// The socket on which answers arrive, while some are expected.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        let running = self.process.as_ref().filter(|_| !self.slots.is_empty())?;
        Some(running.socket.as_fd())
    }
}

fn encode(slot: u32, is_empty: bool) -> [u8; ANSWER] {
    let mut answer = [0; ANSWER];
    let (head, tail) = answer.split_at_mut(4);
    head.copy_from_slice(&slot.to_le_bytes());
    tail.copy_from_slice(&u32::from(is_empty).to_le_bytes());
    answer
}

fn decode(answer: [u8; ANSWER]) -> Option<(usize, bool)> {
    let (slot, is_empty) = answer.split_first_chunk()?;
    let slot = usize::try_from(u32::from_le_bytes(*slot)).ok()?;
    Some((slot, *is_empty == 1_u32.to_le_bytes()))
}

/// Runs in a child, until the spawner is gone.
fn work(socket: &OwnedFd, spawner: Pid, rights: Rights<'_>) -> io::Result<()> {
    // Only for people.
    let _ = prctl::set_name(c"cmp-cleaner");
    close_all_but([socket.as_fd()])?;
    if let Some(uids) = rights.uids {
        uids.leave()?;
    }
    end_with(spawner, Signal::SIGKILL)?;
    // New requests come first.
    lower_priority()?;
    if let Some(directory) = rights.within {
        restrict_changes(std::iter::once(directory.to_owned())).map_err(io::Error::other)?;
    }
    let needed = rights.uids.map(|_| CapabilitySet::SETUID);
    keep_capabilities(needed.unwrap_or(CapabilitySet::empty()))?;
    while let Some((order, descriptors)) = channel::receive::<CleanOrder>(socket)? {
        let removed = descriptors.first().ok_or(Errno::EBADF).and_then(|root| clean(&order, root));
        send(socket, &encode(order.slot, removed.is_ok()), SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Removes the files as their owner.
fn clean(order: &CleanOrder, root: &OwnedFd) -> Result<(), Errno> {
    let until = Instant::now() + TURN;
    let mut pause = || if Instant::now() < until { Ok(()) } else { Err(STOPPED) };
    let Some(owner) = order.owner.map(Uid::from_raw) else {
        return remove::contents(root, &order.workspace, &mut pause);
    };
    setfsuid(owner);
    // The call returns the UID until then, and no error.
    let removed = if setfsuid(owner) == owner {
        remove::contents(root, &order.workspace, &mut pause)
    } else {
        Err(Errno::EPERM)
    };
    setfsuid(geteuid());
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_parts() {
        for answer in [(0, true), (7, false), (u32::MAX, true)] {
            let (slot, is_empty) = decode(encode(answer.0, answer.1)).unwrap();
            assert_eq!((u32::try_from(slot).unwrap(), is_empty), answer);
        }
    }
}
