//! Processes that stand by to end requests, and to become workers.
//!
//! Tenants can use up all processes of the container, and fork(2) then fails.
//! The spawner therefore creates the process that ends a lease before the
//! lease's first worker. Further ones become workers, so that a request does not
//! wait for a fork. Each blocks until its order arrives, and has the
//! spawner's rights until then, but it has read nothing else.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{prctl, signal::Signal},
    unistd::Pid,
};

use super::{backoff::Backoff, duty::Duty, uid_pool::UidPool};
use crate::{
    kernel::{
        fork::{Birth, SingleThreaded, close_all_but},
        parent::end_with,
        policy::Policy,
    },
    wire::{channel, tier::Tier},
    worker::WorkerContext,
};

/// Processes on standby in addition to one for each lease: they become workers, stop
/// commands, and kill leftovers between commands.
const SPARE: usize = 2;

/// Processes on standby in addition to one for each lease, if only inits become workers.
const SPARE_KILLERS: usize = 1;

/// Time without a new lease after which processes that are too many end. Requests that
/// follow each other sooner need them again.
const UNUSED: Duration = Duration::from_secs(2);

/// Longest time without a new process on standby after a promise, while there is
/// one for each promise. The start of a request is not the time for another fork; its
/// end is.
const POSTPONED: Duration = Duration::from_millis(20);

/// Pauses between two attempts to create a process.
const FORK_AGAIN: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// Most new processes for one order, if each ends before it gets it.
const MOST_NEW: u32 = 3;

/// Exit code of a process that could not prepare for its order.
const UNFIT: i32 = 126;

/// A process that waits for its order.
#[derive(Debug)]
struct Standby {
    pid: Pid,
    orders: OwnedFd,
}

/// Everything that such a process needs for its order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kit<'k> {
    pub(super) worker: WorkerContext<'k>,
    pub(super) uids: Option<&'k UidPool>,
}

/// All processes that wait for their orders.
#[derive(Debug)]
pub(super) struct Reserve {
    fork: SingleThreaded,
    idle: VecDeque<Standby>,
    /// Processes on standby in namespaces of their own. If there are some, only they become
    /// workers.
    inits: VecDeque<Standby>,
    /// Most inits on standby; 0 where any process can become a worker.
    most_inits: usize,
    /// Processes that were too many and are about to end.
    retired: BTreeSet<Pid>,
    /// Time of the last promise.
    used: Option<Instant>,
    /// Leases that one of these processes will end.
    promised: usize,
    attempts: u32,
    /// Processes that ended without an order since the last order.
    losses: u32,
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
    /// A worker in a cgroup of its own starts inside it, and never comes from here.
    pub(super) fn new(fork: SingleThreaded, tier: Tier, has_cgroups: bool) -> Self {
        let has_inits = tier == Tier::Namespaces && !has_cgroups;
        Self {
            fork,
            idle: VecDeque::new(),
            inits: VecDeque::new(),
            most_inits: if has_inits { SPARE } else { 0 },
            retired: BTreeSet::new(),
            used: None,
            promised: 0,
            attempts: 0,
            losses: 0,
            retry: None,
            postponed: None,
        }
    }

    /// Promises a process for the end of a lease. Creates it if necessary.
    pub(super) fn promise(&mut self, kit: Kit<'_>) -> io::Result<()> {
        if self.idle.len() <= self.promised {
            self.create(kit)?;
        }
        self.promised += 1;
        let now = Instant::now();
        (self.used, self.postponed) = (Some(now), Some(now + POSTPONED));
        Ok(())
    }

    /// Ends a promise without using it.
    pub(super) fn forgo(&mut self) {
        self.promised = self.promised.saturating_sub(1);
    }

    /// A request has ended: missing processes can be created now.
    pub(super) fn resume(&mut self) {
        self.postponed = None;
    }

    /// Gives an order to the promised process. If the kernel has killed it, a
    /// new one is created.
    pub(super) fn redeem(
        &mut self,
        duty: &Duty,
        root: BorrowedFd<'_>,
        kit: Kit<'_>,
    ) -> io::Result<Ordered> {
        let ordered = self.order(duty, &[root], kit)?;
        self.forgo();
        Ok(ordered)
    }

    /// Gives an order to a process that is not promised to a lease.
    pub(super) fn spare(
        &mut self,
        duty: &Duty,
        root: BorrowedFd<'_>,
        kit: Kit<'_>,
    ) -> io::Result<Ordered> {
        if self.idle.len() <= self.promised {
            self.create(kit)?;
        }
        self.order(duty, &[root], kit)
    }

    /// Lets a process that is not promised to a lease become a worker; `None` if there
    /// is none, or if the order is too long.
    pub(super) fn employ(&mut self, duty: &Duty, descriptors: &[BorrowedFd<'_>]) -> Option<Pid> {
        if !channel::fits(duty) {
            return None;
        }
        let (idle, kept) = if self.most_inits > 0 {
            (&mut self.inits, 0)
        } else {
            (&mut self.idle, self.promised)
        };
        while idle.len() > kept {
            match offer(idle, (duty, descriptors))? {
                Ok(ordered) => {
                    self.losses = 0;
                    return Some(ordered.pid);
                }
                Err(error) if channel::is_closed(&error) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns true if this process stands by or did so before.
    pub(super) fn has(&self, pid: Pid) -> bool {
        let mut idle = self.idle.iter().chain(&self.inits);
        idle.any(|standby| standby.pid == pid) || self.retired.contains(&pid)
    }

    /// Removes a process that ended without an order. Returns false for other
    /// processes. If one after the other ends so, the next ones are created later and later.
    pub(super) fn remove(&mut self, pid: Pid, now: Instant) -> bool {
        let before = self.idle.len() + self.inits.len();
        self.idle.retain(|standby| standby.pid != pid);
        self.inits.retain(|standby| standby.pid != pid);
        let is_lost = self.idle.len() + self.inits.len() < before;
        if is_lost {
            self.retry = Some(now + FORK_AGAIN.pause(self.losses));
            self.losses = self.losses.saturating_add(1);
        }
        is_lost || self.retired.remove(&pid)
    }

    /// Creates missing processes if it is time to, and lets those end that are too
    /// many.
    pub(super) fn fill(&mut self, kit: Kit<'_>, now: Instant) {
        if self.retry.is_some_and(|retry| retry > now) {
            return;
        }
        self.retry = None;
        if self.is_postponed(now) {
            return;
        }
        if self.create_missing(kit).is_err() {
            self.retry = Some(now + FORK_AGAIN.pause(self.attempts));
            self.attempts = self.attempts.saturating_add(1);
        } else {
            (self.attempts, self.postponed) = (0, None);
        }
        if !self.is_in_use(now) {
            // Each ends when its connection is closed.
            let surplus = self.idle.drain(self.wanted().min(self.idle.len())..);
            self.retired.extend(surplus.map(|standby| standby.pid));
        }
    }

    /// Time of the next attempt to create missing processes, or to end some.
    pub(super) fn due(&self) -> Option<Instant> {
        let unused = self.used.map(|used| used + UNUSED);
        let is_missing = self.idle.len() < self.wanted() || self.inits.len() < self.most_inits;
        let missing = self.postponed.filter(|_| is_missing);
        let surplus = unused.filter(|_| self.idle.len() > self.wanted());
        self.retry.or([missing, surplus].into_iter().flatten().min())
    }

    fn is_postponed(&self, now: Instant) -> bool {
        self.idle.len() >= self.promised && self.postponed.is_some_and(|until| until > now)
    }

    fn is_in_use(&self, now: Instant) -> bool {
        self.used.is_some_and(|used| now < used + UNUSED)
    }

    fn order(
        &mut self,
        duty: &Duty,
        descriptors: &[BorrowedFd<'_>],
        kit: Kit<'_>,
    ) -> io::Result<Ordered> {
        let fork = self.fork;
        let ordered =
            give(&mut self.idle, (duty, descriptors), || Standby::create(fork, Birth::PLAIN, kit))?;
        self.losses = 0;
        Ok(ordered)
    }

    /// Processes on standby that can end leases, once none is missing.
    fn wanted(&self) -> usize {
        self.promised + if self.most_inits > 0 { SPARE_KILLERS } else { SPARE }
    }

    fn create(&mut self, kit: Kit<'_>) -> io::Result<()> {
        self.idle.push_back(Standby::create(self.fork, Birth::PLAIN, kit)?);
        Ok(())
    }

    fn create_missing(&mut self, kit: Kit<'_>) -> io::Result<()> {
        while self.idle.len() < self.wanted() {
            self.create(kit)?;
        }
        while self.inits.len() < self.most_inits {
            self.inits.push_back(Standby::create(self.fork, kit.worker.birth(), kit)?);
        }
        Ok(())
    }
}

impl Standby {
    fn create(fork: SingleThreaded, birth: Birth<'_>, kit: Kit<'_>) -> io::Result<Self> {
        let (orders, theirs) = channel::packet_pair()?;
        let pid = fork.fork_at(birth, || stand_by(&theirs, kit))?;
        Ok(Self { pid, orders })
    }
}

/// Gives an order to one that lives, or to a new one. Ends if new ones die one after the
/// other: the caller tries again later.
fn give(
    idle: &mut VecDeque<Standby>,
    order: (&Duty, &[BorrowedFd<'_>]),
    mut create: impl FnMut() -> io::Result<Standby>,
) -> io::Result<Ordered> {
    for attempt in 0..=MOST_NEW {
        while let Some(offered) = offer(idle, order) {
            match offered {
                Err(error) if channel::is_closed(&error) => {}
                ordered => return ordered,
            }
        }
        if attempt < MOST_NEW {
            idle.push_back(create()?);
        }
    }
    let text = format!("{MOST_NEW} new processes ended before they got their order");
    Err(io::Error::other(text))
}

/// Gives an order to the process that has stood by for longest. It keeps standing by if
/// the order cannot be sent.
fn offer(
    idle: &mut VecDeque<Standby>,
    (duty, descriptors): (&Duty, &[BorrowedFd<'_>]),
) -> Option<io::Result<Ordered>> {
    let Standby { pid, orders } = idle.pop_front()?;
    Some(match channel::send(&orders, duty, descriptors) {
        Err(error) if !channel::is_closed(&error) => {
            idle.push_front(Standby { pid, orders });
            Err(error)
        }
        sent => sent.map(|()| Ordered { pid, socket: orders }),
    })
}

/// A process could not prepare for its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// It can still become a worker, which takes the same steps again and tells which
    /// one fails.
    ForEnding,
    ForEverything,
}

/// Runs in a child.
fn stand_by(orders: &OwnedFd, kit: Kit<'_>) -> i32 {
    rename(c"cmp-standby");
    let prepared = prepare(orders, &[], kit);
    if prepared == Err(Unfit::ForEverything) {
        return UNFIT;
    }
    match channel::receive::<Duty>(orders) {
        Ok(Some((duty, descriptors))) => {
            // The reason, for example too little memory, may have gone in the meantime.
            let is_fit =
                duty.is_work() || prepared.is_ok() || prepare(orders, &descriptors, kit).is_ok();
            if !is_fit {
                return UNFIT;
            }
            rename(duty.name());
            duty.perform(orders, descriptors, kit.worker)
        }
        // The spawner is gone, or has no use for this process.
        Ok(None) | Err(_) => 0,
    }
}

/// Each of the last two steps makes sure that this process ends with the spawner. `received` came
/// with the order.
fn prepare(orders: &OwnedFd, received: &[OwnedFd], kit: Kit<'_>) -> Result<(), Unfit> {
    let left = kit.uids.map_or(Ok(()), UidPool::leave);
    let bound = end_with(kit.worker.parent, Signal::SIGKILL);
    // Descriptors of other requests would stay open for the time of the wait.
    let places = kit.worker.policy.into_iter().flat_map(Policy::descriptors);
    let own = received.iter().chain([orders]).map(OwnedFd::as_fd);
    let closed = close_all_but(places.chain(own));
    if bound == Err(Errno::ESRCH) || (bound.is_err() && closed.is_err()) {
        return Err(Unfit::ForEverything);
    }
    if left.is_ok() && bound.is_ok() && closed.is_ok() { Ok(()) } else { Err(Unfit::ForEnding) }
}

/// Sets the name that `ps` and `top` show.
fn rename(name: &CStr) {
    // Only for people.
    let _ = prctl::set_name(name);
}

#[cfg(test)]
mod tests;
