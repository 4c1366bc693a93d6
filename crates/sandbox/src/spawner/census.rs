//! Counts the processes of all requests in one pass.
//!
//! A child of the spawner reads `/proc` once for all requests. It has no
//! privileges, because the tables contain names that tenants choose. It lives
//! as long as the spawner: a new child might not be available when a tenant has
//! used up the container's processes.

mod scan;
mod sockets;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use cmp_procfs::Fields;
use nix::{
    errno::Errno,
    libc,
    sys::{
        signal::{SigSet, Signal},
        statvfs::fstatvfs,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, Uid},
};
use prost::Message;

pub(super) use self::sockets::{
    by_inode as socket_buffers, is_refused as is_socket_refused, open as open_sockets,
    unlisted as unlisted_sockets,
};
use crate::{
    kernel::{
        fork::{self, SingleThreaded},
        parent::end_with,
        privilege::{change_user, drop_capabilities},
    },
    wire::channel,
};

/// Most rows in one message.
const MAX_ROWS: usize = 100;

/// Longest wait for an answer. Requests are then measured one by one until it
/// arrives.
const PATIENCE: Duration = Duration::from_secs(2);

/// The spawner's end.
#[derive(Debug)]
pub(super) struct Census {
    pid: Pid,
    socket: OwnedFd,
    asked: Option<Instant>,
    rows: Vec<Row>,
}

/// Everything that the census may use.
#[derive(Debug)]
pub(super) struct Equipment<'e> {
    /// UID of the census; `None` to keep the spawner's.
    pub(super) user: Option<Uid>,
    /// UIDs of tenants; `None` in tiers without separate UIDs.
    pub(super) tenants: Option<BTreeSet<u32>>,
    /// Directory of all workspaces.
    pub(super) root: BorrowedFd<'e>,
    /// Socket to ask the kernel about sockets.
    pub(super) diagnostics: Option<BorrowedFd<'e>>,
    /// Process ID of the spawner.
    pub(super) spawner: Pid,
    /// Local ports that all requests may have. If they have more descriptors, a pass asks
    /// for sockets.
    pub(super) ports: u64,
}

/// An order to count.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Ask {
    /// Also ask the kernel for sockets. Required, because an empty
    /// message would mean the end.
    #[prost(bool, required, tag = "1")]
    pub(super) sockets: bool,
}

/// A part of the answer.
#[derive(Clone, PartialEq, Message)]
struct Part {
    #[prost(message, repeated, tag = "1")]
    rows: Vec<Row>,
    /// Set in the last part only.
    #[prost(message, optional, tag = "2")]
    end: Option<End>,
}

/// Figures of the whole pass.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct End {
    /// CPU time of the pass.
    #[prost(uint64, tag = "1")]
    cost_us: u64,
    /// Processes could be listed, and those of other UIDs are visible.
    #[prost(bool, tag = "2")]
    is_complete: bool,
    /// Bytes and inodes in use on the work volume.
    #[prost(uint64, tag = "3")]
    bytes: u64,
    #[prost(uint64, tag = "4")]
    inodes: u64,
    /// Local ports of the UIDs of requests; `None` if they were not asked for.
    #[prost(uint64, optional, tag = "5")]
    ports: Option<u64>,
}

/// Figures of one request.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Row {
    /// UID of the tenant, or process ID of the worker in tiers without separate
    /// UIDs.
    #[prost(uint32, tag = "1")]
    pub(super) key: u32,
    /// Processes and threads.
    #[prost(uint64, tag = "2")]
    pub(super) processes: u64,
    /// Threads that run or wait for a processor.
    #[prost(uint64, tag = "3")]
    pub(super) running: u64,
    /// Bytes of memory: private, shared, and page tables.
    #[prost(uint64, tag = "4")]
    pub(super) own: u64,
    #[prost(uint64, tag = "5")]
    pub(super) shared: u64,
    #[prost(uint64, tag = "6")]
    pub(super) tables: u64,
    /// Bytes in buffers of sockets; `None` if they were not asked for.
    #[prost(uint64, optional, tag = "7")]
    pub(super) sockets: Option<u64>,
    /// CPU time in ticks.
    #[prost(uint64, tag = "8")]
    pub(super) ticks: u64,
    /// Changes if a process starts or ends.
    #[prost(uint64, tag = "9")]
    pub(super) members: u64,
    /// Sockets with a local port, or room for descriptors, which are at least as many:
    /// if sockets were not asked for, and in tiers without separate UIDs.
    #[prost(uint64, tag = "10")]
    pub(super) ports: u64,
    /// Bytes of `sockets` that belong to connections which no process has open.
    #[prost(uint64, tag = "11")]
    pub(super) orphans: u64,
}

/// Bytes and inodes in use on the work volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl Volume {
    /// The volume of this directory.
    pub(super) fn of(directory: impl AsFd) -> Option<Self> {
        let about = fstatvfs(&directory).ok()?;
        let blocks = about.blocks().saturating_sub(about.blocks_free());
        Some(Self {
            bytes: blocks.saturating_mul(about.fragment_size()),
            inodes: about.files().saturating_sub(about.files_free()),
        })
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub(super) rows: BTreeMap<u32, Row>,
    /// CPU time of the pass.
    pub(super) cost: Duration,
    pub(super) volume: Volume,
    /// Local ports of the UIDs of requests; `None` if they were not asked for.
    pub(super) ports: Option<u64>,
    /// False if the kernel hides processes of other UIDs, or does not list any.
    pub(super) is_complete: bool,
}

impl Census {
    /// Starts the child.
    pub(super) fn start(fork: SingleThreaded, equipment: &Equipment<'_>) -> io::Result<Self> {
        let (socket, theirs) = channel::packet_pair()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let pid = fork.fork(|| i32::from(run(&theirs, equipment).is_err()))?;
        Ok(Self { pid, socket, asked: None, rows: Vec::new() })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Orders a pass, unless one runs already.
    pub(super) fn ask(&mut self, ask: Ask, now: Instant) -> io::Result<()> {
        if self.asked.is_none() {
            channel::send(&self.socket, &ask, &[])?;
            self.asked = Some(now);
        }
        Ok(())
    }

    /// Returns true while a pass runs.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Goes on to wait for an answer.
    pub(super) fn wait(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// End of the wait for an answer, while a pass runs.
    pub(super) fn patience(&self) -> Option<Instant> {
        Some(self.asked? + PATIENCE)
    }

    /// The socket on which answers arrive.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives an answer, if it is complete. An error means that the child has
    /// ended.
    pub(super) fn receive(&mut self) -> io::Result<Option<Survey>> {
        loop {
            let part = match channel::receive::<Part>(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                part => part?.ok_or(io::ErrorKind::UnexpectedEof)?.0,
            };
            self.rows.extend(part.rows);
            let Some(end) = part.end else { continue };
            self.asked = None;
            let rows = self.rows.drain(..).map(|row| (row.key, row)).collect();
            let volume = Volume { bytes: end.bytes, inodes: end.inodes };
            let cost = Duration::from_micros(end.cost_us);
            let End { ports, is_complete, .. } = end;
            return Ok(Some(Survey { rows, cost, volume, ports, is_complete }));
        }
    }
}

/// Returns false if `/proc` hides processes from the census of a tier without separate
/// UIDs: it finds the processes of a request through their guards.
pub(super) fn is_possible(fork: SingleThreaded) -> io::Result<bool> {
    let spawner = Pid::this().as_raw().unsigned_abs();
    let look = || {
        become_powerless(None)?;
        Fields::status(spawner).map(drop)
    };
    let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::EIO as i32);
    let child = fork.fork(|| look().map_or_else(number, |()| 0))?;
    let WaitStatus::Exited(_, errno) = waitpid(child, None)? else {
        return Err(io::ErrorKind::Interrupted.into());
    };
    match errno {
        0 => Ok(true),
        libc::ENOENT | libc::EPERM | libc::EACCES => Ok(false),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Runs in the child until the spawner closes its end.
fn run(socket: &OwnedFd, equipment: &Equipment<'_>) -> io::Result<()> {
    let kept = [socket.as_fd(), equipment.root].into_iter().chain(equipment.diagnostics);
    fork::close_all_but(kept)?;
    become_powerless(equipment.user)?;
    end_with(equipment.spawner, Signal::SIGKILL)?;
    SigSet::all().thread_unblock()?;
    answer(socket, equipment)
}

/// Makes a pass for each order until the spawner closes its end.
fn answer(socket: &OwnedFd, equipment: &Equipment<'_>) -> io::Result<()> {
    let mut history = scan::History::default();
    while let Some((ask, _)) = channel::receive::<Ask>(socket)? {
        let (rows, end) = scan::pass(equipment, &mut history, ask);
        let mut parts: Vec<Part> =
            rows.chunks(MAX_ROWS).map(|rows| Part { rows: rows.to_vec(), end: None }).collect();
        parts.push(Part { rows: Vec::new(), end: Some(end) });
        for part in &parts {
            channel::send(socket, part, &[])?;
        }
    }
    Ok(())
}

fn become_powerless(user: Option<Uid>) -> Result<(), Errno> {
    if let Some(user) = user {
        change_user(user, &[])?;
    }
    drop_capabilities()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, thread};

    use super::*;
    use crate::skip::soon;

    fn most() -> Row {
        let most = u64::MAX;
        Row {
            key: u32::MAX,
            processes: most,
            running: most,
            own: most,
            shared: most,
            tables: most,
            sockets: Some(most),
            ticks: most,
            members: most,
            ports: most,
            orphans: most,
        }
    }

    #[test]
    fn the_longest_part_fits_into_a_message() {
        let (here, _there) = channel::packet_pair().unwrap();
        channel::send(&here, &Part { rows: vec![most(); MAX_ROWS], end: None }, &[]).unwrap();
    }

    #[test]
    fn an_answer_in_parts_arrives_whole() {
        let (socket, theirs) = channel::packet_pair().unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        let mut census = Census { pid: Pid::this(), socket, asked: None, rows: Vec::new() };
        census.ask(Ask { sockets: true }, Instant::now()).unwrap();
        assert!(census.is_asked() && census.receive().unwrap().is_none());
        channel::send(&theirs, &Part { rows: vec![most()], end: None }, &[]).unwrap();
        assert!(census.receive().unwrap().is_none());
        let end = End { cost_us: 7, is_complete: true, bytes: 8, inodes: 9, ports: Some(10) };
        channel::send(&theirs, &Part { rows: Vec::new(), end: Some(end) }, &[]).unwrap();
        let survey = census.receive().unwrap().unwrap();
        assert_eq!(survey.rows.into_values().collect::<Vec<_>>(), [most()]);
        assert_eq!((survey.volume, survey.ports), (Volume { bytes: 8, inodes: 9 }, Some(10)));
        assert!(!census.is_asked());
        drop(theirs);
        assert!(soon(|| census.receive().is_err()), "the child has ended");
    }

    #[test]
    fn the_child_answers_until_the_socket_closes() {
        let (socket, theirs) = channel::packet_pair().unwrap();
        let root = File::open("/").unwrap();
        let child = thread::spawn(move || {
            let root = root.as_fd();
            let (user, tenants, diagnostics, spawner) = (None, None, None, Pid::this());
            let equipment = Equipment { user, tenants, root, diagnostics, spawner, ports: 0 };
            answer(&theirs, &equipment)
        });
        let mut census = Census { pid: Pid::this(), socket, asked: None, rows: Vec::new() };
        for _ in 0..2 {
            census.ask(Ask::default(), Instant::now()).unwrap();
            let survey = census.receive().unwrap().unwrap();
            assert!(survey.is_complete && survey.volume.inodes > 0, "{survey:?}");
        }
        drop(census);
        child.join().unwrap().unwrap();
    }
}
