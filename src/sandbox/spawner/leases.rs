//! All leases: who works under them, and how they end.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, Uid, UnlinkatFlags, geteuid, unlinkat},
};

use super::{
    super::{
        fork::{Reaped, SingleThreaded},
        message::{Ended, Event, JobKind, LeaseOrder, Leased, Released, StartOrder},
        worker::{self, Tenant},
    },
    clean,
    ending::{Ending, Found, Step},
    kill,
    setup::{Root, Unfit, Users},
    slot::{Slots, State, Waiting},
};

/// Time a signal takes at most; looking again too early costs nothing.
const AFTER_SIGNAL: Duration = Duration::from_millis(1);

/// The users, their processes and their directories.
pub(super) struct Leases {
    fork: SingleThreaded,
    users: Users,
    root: Root,
    slots: Slots,
    children: BTreeMap<Pid, Child>,
    /// Signals to be sent, by one killer at a time: two would be the same user
    /// and could meet each other's signals. At most two per slot.
    kills: VecDeque<Kill>,
    /// The slot whose processes are being signalled.
    killing: Option<usize>,
    reports: Vec<Event>,
}

/// A signal to everything under a lease.
#[derive(Clone, Copy, Debug)]
struct Kill {
    slot: usize,
    lease: u64,
    signal: Signal,
}

/// What a child of the spawner is for.
#[derive(Debug)]
enum Child {
    Worker {
        slot: usize,
        job: u64,
    },
    Killer(Kill),
    Cleaner {
        slot: usize,
    },
    /// Removes what an earlier spawner left.
    Stale(String),
}

impl Leases {
    pub(super) fn new(fork: SingleThreaded, users: Users, root: Root) -> Self {
        Self {
            fork,
            slots: Slots::new(users.leased.iter().copied()),
            users,
            root,
            children: BTreeMap::new(),
            kills: VecDeque::new(),
            killing: None,
            reports: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// What the supervisor has not been told yet.
    pub(super) fn take_reports(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.reports)
    }

    /// When something is to be done next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|(_, slot)| slot.wake()).min()
    }

    /// Whether a lease is still being taken back.
    pub(super) fn are_ending(&self) -> bool {
        self.slots.iter().any(|(_, slot)| matches!(slot.state, State::Ending { .. }))
    }

    /// Begins to remove the directories of a spawner that was killed, each as
    /// the user it belongs to: nobody else can.
    pub(super) fn remove_stale(&mut self) -> Result<(), Unfit> {
        let unfit = |error| Unfit::WorkDir { path: self.root.path.clone(), error, uid: geteuid() };
        for entry in fs::read_dir(&self.root.path).map_err(unfit)? {
            let entry = entry.map_err(unfit)?;
            let owner = Uid::from_raw(entry.metadata().map_err(unfit)?.uid());
            let owner = (owner != geteuid()).then_some(owner);
            let Ok(name) = entry.file_name().into_string() else { continue };
            let cleaner = self
                .fork
                .fork([self.root.directory.as_fd()], |[root]| clean::clean(&root, &name, owner));
            let pid = cleaner.map_err(unfit)?;
            self.children.insert(pid, Child::Stale(name));
        }
        Ok(())
    }

    pub(super) fn lease(&mut self, order: LeaseOrder) {
        let leased = self.slots.lease(Instant::now());
        let (lease, uid) = leased.map_or((0, 0), |(lease, uid)| (lease, uid.as_raw()));
        self.reports.push(Event::Leased(Leased { ticket: order.ticket, lease, uid }));
    }

    /// Starts a worker, after a sweep if a command ran under the lease before:
    /// what it left must not be there to meet the next one.
    pub(super) fn start(&mut self, order: StartOrder, socket: OwnedFd) {
        let worker = Waiting { job: order.job, run: order.kind() == JobKind::Run, socket };
        let Some(index) = self.slots.find(order.lease) else {
            return self.refuse(worker.job, "its lease has ended");
        };
        match self.slots.lease_mut(index) {
            None => self.refuse(worker.job, "its lease is ending"),
            Some(lease) if lease.used => {
                lease.waiting = Some(worker);
                self.signal(index, Signal::SIGKILL);
            }
            Some(_) => self.fork_worker(index, &worker),
        }
    }

    fn fork_worker(&mut self, index: usize, worker: &Waiting) {
        let user = self.slots.user(index).filter(|_| self.users.killer.is_some());
        let Some(lease) = self.slots.lease_mut(index) else { return };
        lease.used |= worker.run;
        let tenant =
            Tenant { user, workspace: lease.workspace.clone(), root: self.root.path.clone() };
        let keep = [self.root.directory.as_fd(), worker.socket.as_fd()];
        let run = worker.run;
        let forked =
            self.fork.fork(keep, |[root, socket]| worker::main(&tenant, &root, socket, run));
        match forked {
            Ok(pid) => {
                lease.workers.insert(pid, worker.job);
                self.children.insert(pid, Child::Worker { slot: index, job: worker.job });
            }
            Err(error) => self.refuse(worker.job, &error.to_string()),
        }
    }

    fn refuse(&mut self, job: u64, why: &str) {
        let failure = format!("cannot start a worker: {why}");
        self.reports.push(Event::Ended(Ended { job, failure, ..Ended::default() }));
    }

    pub(super) fn stop(&mut self, lease: u64) {
        let index = self.slots.find(lease);
        if let Some(index) = index.filter(|index| self.slots.lease_mut(*index).is_some()) {
            self.signal(index, Signal::SIGTERM);
        }
    }

    pub(super) fn release(&mut self, lease: u64, grace: Duration) {
        let Some(index) = self.slots.find(lease) else { return };
        if let Some(step) = self.slots.begin_ending(index, Instant::now(), grace) {
            self.take(index, step);
        }
    }

    pub(super) fn release_all(&mut self) {
        let now = Instant::now();
        for index in 0..self.slots.len() {
            if let Some(step) = self.slots.begin_ending(index, now, Duration::ZERO) {
                self.take(index, step);
            }
        }
    }

    /// A child ended.
    pub(super) fn reaped(&mut self, reaped: Reaped) {
        let now = Instant::now();
        match self.children.remove(&reaped.pid) {
            Some(Child::Worker { slot, job }) => self.worker_ended(slot, job, reaped),
            Some(Child::Killer(kill)) => {
                self.killing = None;
                self.killed(kill, now);
                self.next_kill();
            }
            Some(Child::Cleaner { slot }) => {
                self.step(slot, |ending| ending.cleaned(now, clean::found(reaped.status)));
            }
            Some(Child::Stale(name)) => drop(self.remove_directory(&name)),
            // An orphan of a tenant, handed to the nearest subreaper.
            None => {}
        }
    }

    fn worker_ended(&mut self, index: usize, job: u64, reaped: Reaped) {
        if let Some(lease) = self.slots.any_lease_mut(index) {
            lease.workers.remove(&reaped.pid);
        }
        self.reports.push(Event::Ended(Ended {
            job,
            status: reaped.status,
            user_us: u64::try_from(reaped.user.as_micros()).unwrap_or(u64::MAX),
            system_us: u64::try_from(reaped.system.as_micros()).unwrap_or(u64::MAX),
            max_rss_kib: reaped.max_rss_kib,
            failure: String::new(),
        }));
    }

    /// Does what became due for leases that are ending.
    pub(super) fn advance(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            if self.slots.take_wake(index, now) {
                self.step(index, |ending| ending.waited(now));
            }
        }
    }

    fn step(&mut self, index: usize, next: impl FnOnce(&mut Ending) -> Step) {
        if let Some(ending) = self.slots.ending_mut(index) {
            let step = next(ending);
            self.take(index, step);
        }
    }

    fn take(&mut self, index: usize, step: Step) {
        match step {
            Step::Stop => self.signal(index, Signal::SIGTERM),
            Step::Kill => self.signal(index, Signal::SIGKILL),
            Step::Clean => self.clean(index),
            Step::Wait(until) => self.slots.set_wake(index, until),
            Step::Free => self.end(index, false),
            Step::Quarantine => self.end(index, true),
        }
    }

    fn clean(&mut self, index: usize) {
        // A signal on its way could meet the user's next tenant.
        let signalled = self.kills.iter().map(|kill| kill.slot).chain(self.killing);
        if signalled.into_iter().any(|slot| slot == index) {
            return self.slots.set_wake(index, Instant::now() + AFTER_SIGNAL);
        }
        let user = self.slots.user(index).filter(|_| self.users.killer.is_some());
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        let name = lease.workspace.as_str();
        let keep = [self.root.directory.as_fd()];
        let forked = self.fork.fork(keep, |[root]| clean::clean(&root, name, user));
        if let Ok(pid) = forked {
            self.children.insert(pid, Child::Cleaner { slot: index });
        } else {
            // No process to be had: the same is tried again, for a while.
            let now = Instant::now();
            self.step(index, |ending| ending.cleaned(now, Found::Processes));
        }
    }

    fn end(&mut self, index: usize, quarantined: bool) {
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        let (id, name) = (lease.id, lease.workspace.clone());
        let killed = self.slots.ending_mut(index).is_some_and(|ending| ending.has_killed());
        let quarantined = quarantined || !self.remove_directory(&name);
        self.slots.end(index, Instant::now(), quarantined);
        self.reports.push(Event::Released(Released { lease: id, quarantined, killed }));
    }

    /// Removes a workspace's own directory, which is empty by now. That takes
    /// the right to write to the root, which no tenant has.
    fn remove_directory(&self, name: &str) -> bool {
        let removed = unlinkat(&self.root.directory, name, UnlinkatFlags::RemoveDir);
        matches!(removed, Ok(()) | Err(nix::errno::Errno::ENOENT))
    }

    fn signal(&mut self, slot: usize, signal: Signal) {
        if let Some(lease) = self.slots.any_lease_mut(slot).map(|lease| lease.id) {
            self.kills.push_back(Kill { slot, lease, signal });
            self.next_kill();
        }
    }

    fn next_kill(&mut self) {
        while self.killing.is_none()
            && let Some(kill) = self.kills.pop_front()
        {
            if self.slots.find(kill.lease) != Some(kill.slot) {
                continue;
            }
            if let Some(killer) = self.users.killer {
                self.fork_killer(kill, killer);
            } else {
                self.signal_groups(kill);
                self.killed(kill, Instant::now());
            }
        }
    }

    fn fork_killer(&mut self, kill: Kill, killer: Uid) {
        let Some(victim) = self.slots.user(kill.slot) else { return };
        match self.fork.fork([], |[]| kill::kill_all(victim, killer, kill.signal)) {
            Ok(pid) => {
                self.killing = Some(kill.slot);
                self.children.insert(pid, Child::Killer(kill));
            }
            // Cleaning will find the processes, and ask again.
            Err(_) => self.killed(kill, Instant::now()),
        }
    }

    /// Where everybody is one user, the process groups of the workers are all
    /// that can be told apart.
    fn signal_groups(&mut self, kill: Kill) {
        let Some(lease) = self.slots.any_lease_mut(kill.slot) else { return };
        for group in lease.workers.keys() {
            // A group that is gone needs no signal.
            let _ = killpg(*group, kill.signal);
        }
    }

    /// The signal to a slot's processes was sent.
    fn killed(&mut self, kill: Kill, now: Instant) {
        let lease = self.slots.lease_mut(kill.slot);
        let swept = lease.filter(|_| kill.signal == Signal::SIGKILL);
        match swept.and_then(|lease| lease.waiting.take()) {
            Some(worker) => self.fork_worker(kill.slot, &worker),
            None => self.step(kill.slot, |ending| ending.signalled(now)),
        }
    }
}
