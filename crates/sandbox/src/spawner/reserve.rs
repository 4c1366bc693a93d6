//! Processes that stand by to end requests.
//!
//! Tenants can use up all processes of the container, and fork(2) then fails.
//! The spawner therefore creates the process that ends a lease before the
//! lease's first worker. It blocks until its order arrives, and has the
//! spawner's rights until then, but it has read nothing else.

use std::{
    collections::VecDeque,
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    sys::{prctl, signal::Signal},
    unistd::{Pid, getppid},
};

use super::{backoff::Backoff, duty::Duty, uid_pool::UidPool};
use crate::{
    kernel::fork::{SingleThreaded, close_all_but},
    wire::channel,
};

/// Processes on standby in addition to one for each lease. They stop commands
/// and kill leftovers between commands.
const SPARE: usize = 2;

/// Longest time without a new process on standby after a promise, while there is
/// one to spare. The start of a request is not the time for another fork; its end
/// is.
const POSTPONED: Duration = Duration::from_millis(20);

/// Pauses between two attempts to create a process.
const FORK_AGAIN: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// Exit code of a process that could not prepare for its order.
const UNFIT: i32 = 126;

/// A process that waits for its order.
#[derive(Debug)]
struct Standby {
    pid: Pid,
    orders: OwnedFd,
}

/// All processes that wait for their orders.
#[derive(Debug)]
pub(super) struct Reserve {
    fork: SingleThreaded,
    idle: VecDeque<Standby>,
    /// Leases that one of these processes will end.
    promised: usize,
    attempts: u32,
    retry: Option<Instant>,
    /// Time until which a missing process may be missing.
    postponed: Option<Instant>,
}

/// A process that has received its order.
#[derive(Debug)]
pub(super) struct Ordered {
    pub(super) pid: Pid,
    /// The spawner's end of its connection.
    pub(super) socket: OwnedFd,
}

impl Reserve {
    pub(super) fn new(fork: SingleThreaded) -> Self {
        Self { fork, idle: VecDeque::new(), promised: 0, attempts: 0, retry: None, postponed: None }
    }

    /// Promises a process for the end of a lease. Creates it if necessary.
    pub(super) fn promise(&mut self, uids: Option<&UidPool>) -> io::Result<()> {
        if self.idle.len() <= self.promised {
            self.create(uids)?;
        }
        self.promised += 1;
        self.postponed = Some(Instant::now() + POSTPONED);
        Ok(())
    }

    /// Ends a promise without using it.
    pub(super) fn forgo(&mut self) {
        self.promised = self.promised.saturating_sub(1);
        self.postponed = None;
    }

    /// Gives an order to the promised process. If the kernel has killed it, a
    /// new one is created.
    pub(super) fn redeem(
        &mut self,
        duty: &Duty,
        root: BorrowedFd<'_>,
        uids: Option<&UidPool>,
    ) -> io::Result<Ordered> {
        let ordered = self.order(duty, root, uids)?;
        self.forgo();
        Ok(ordered)
    }

    /// Gives an order to a process that is not promised to a lease.
    pub(super) fn spare(
        &mut self,
        duty: &Duty,
        root: BorrowedFd<'_>,
        uids: Option<&UidPool>,
    ) -> io::Result<Ordered> {
        if self.idle.len() <= self.promised {
            self.create(uids)?;
        }
        self.order(duty, root, uids)
    }

    /// Removes a process that ended without an order. Returns false for other
    /// processes.
    pub(super) fn remove(&mut self, pid: Pid) -> bool {
        let before = self.idle.len();
        self.idle.retain(|standby| standby.pid != pid);
        self.idle.len() < before
    }

    /// Creates missing processes if it is time to.
    pub(super) fn fill(&mut self, uids: Option<&UidPool>, now: Instant) {
        if self.retry.is_some_and(|retry| retry > now) {
            return;
        }
        self.retry = None;
        if self.is_postponed(now) {
            return;
        }
        while self.idle.len() < self.promised + SPARE {
            if self.create(uids).is_err() {
                self.retry = Some(now + FORK_AGAIN.pause(self.attempts));
                self.attempts = self.attempts.saturating_add(1);
                return;
            }
        }
        self.attempts = 0;
    }

    /// Time of the next attempt to create missing processes.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_missing = self.idle.len() < self.promised + SPARE;
        self.retry.or(self.postponed.filter(|_| is_missing))
    }

    fn is_postponed(&self, now: Instant) -> bool {
        self.idle.len() > self.promised && self.postponed.is_some_and(|until| until > now)
    }

    fn order(
        &mut self,
        duty: &Duty,
        root: BorrowedFd<'_>,
        uids: Option<&UidPool>,
    ) -> io::Result<Ordered> {
        loop {
            let Some(Standby { pid, orders }) = self.idle.pop_front() else {
                self.create(uids)?;
                continue;
            };
            // If it has ended, the next one gets the order.
            if channel::send(&orders, duty, &[root]).is_ok() {
                return Ok(Ordered { pid, socket: orders });
            }
        }
    }

    fn create(&mut self, uids: Option<&UidPool>) -> io::Result<()> {
        let (orders, theirs) = channel::packet_pair()?;
        let spawner = Pid::this();
        let pid = self.fork.fork(|| stand_by(&theirs, spawner, uids))?;
        self.idle.push_back(Standby { pid, orders });
        Ok(())
    }
}

/// Runs in a child.
fn stand_by(orders: &OwnedFd, spawner: Pid, uids: Option<&UidPool>) -> i32 {
    if prepare(orders, spawner, uids).is_err() {
        return UNFIT;
    }
    match channel::receive::<Duty>(orders) {
        Ok(Some((duty, descriptors))) => {
            rename(c"cmp-ender");
            duty.perform(orders, descriptors)
        }
        // The spawner is gone.
        Ok(None) | Err(_) => 0,
    }
}

fn prepare(orders: &OwnedFd, spawner: Pid, uids: Option<&UidPool>) -> io::Result<()> {
    rename(c"cmp-standby");
    // Descriptors of other requests would stay open for the time of the wait.
    close_all_but([orders.as_fd()])?;
    uids.map_or(Ok(()), UidPool::leave)?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == spawner { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Sets the name that `ps` and `top` show.
fn rename(name: &CStr) {
    // Only for people.
    let _ = prctl::set_name(name);
}
