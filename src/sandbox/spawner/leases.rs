//! All leases: who works under them, and how they end.

mod looks;
mod signals;

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    os::{fd::AsFd, unix::fs::MetadataExt},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::Signal,
    unistd::{Pid, Uid, UnlinkatFlags, geteuid, unlinkat},
};

use super::{
    super::{
        fork::{Reaped, SingleThreaded},
        message::{
            Ended, Event, Grants, JobKind, LeaseOrder, Leased, Ready, Released, StartOrder,
            TierName,
        },
        shared::Shared,
        worker::{Job, Lines, Site, Tenant},
    },
    caches::NoCache,
    census::Census,
    clean::{self, Whose},
    ending::{Ending, Found, Step},
    leftovers,
    rounds::Rounds,
    setup::{Arrangement, Unfit},
    slot::{Lease, Slots, State, Waiting},
};

use self::looks::Look;

/// Time a signal takes at most; looking again too early costs nothing.
const AFTER_SIGNAL: Duration = Duration::from_millis(1);

/// The users, their processes and their directories.
pub(super) struct Leases {
    fork: SingleThreaded,
    arrangement: Arrangement,
    slots: Slots,
    children: BTreeMap<Pid, Child>,
    /// Orders that wait for a user. The supervisor gives no more than it has
    /// places for requests.
    queue: VecDeque<(LeaseOrder, Lines)>,
    reports: Vec<Event>,
}

/// What a child of the spawner is for.
#[derive(Debug)]
enum Child {
    Worker {
        slot: usize,
        job: u64,
    },
    /// Signals everything of a slot's tenant.
    Killer {
        slot: usize,
        signal: Signal,
    },
    Cleaner {
        slot: usize,
    },
    Gauge(Look),
    /// Removes what an earlier spawner left.
    Stale(String),
}

impl Leases {
    pub(super) fn new(fork: SingleThreaded, arrangement: Arrangement, leases: u32) -> Self {
        let slots = match &arrangement.users {
            Some(users) => Slots::new(users.pairs.iter().copied().map(Some)),
            None => Slots::new((0..leases).map(|_| None)),
        };
        Self {
            fork,
            arrangement,
            slots,
            children: BTreeMap::new(),
            queue: VecDeque::new(),
            reports: Vec::new(),
        }
    }

    /// What the supervisor is told at first.
    pub(super) fn ready(&self) -> Ready {
        let Arrangement { users, census, .. } = &self.arrangement;
        Ready {
            leases: u32::try_from(self.slots.len()).unwrap_or(u32::MAX),
            tier: TierName::from(self.arrangement.tier).into(),
            landlock: self.arrangement.landlock,
            missing: self.arrangement.missing.clone(),
            root: self.arrangement.root.path.to_string_lossy().into_owned(),
            unlimited: users.is_some() && *census == Census::Listing,
        }
    }

    /// What the supervisor has not been told yet.
    pub(super) fn take_reports(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.reports)
    }

    /// When something is to be done next.
    pub(super) fn due(&self) -> Option<Instant> {
        let rested = (!self.queue.is_empty()).then(|| self.slots.next_rested()).flatten();
        self.slots.iter().filter_map(|(_, slot)| slot.wake()).chain(rested).min()
    }

    /// Whether a lease is still being taken back.
    pub(super) fn are_ending(&self) -> bool {
        self.slots.iter().any(|(_, slot)| matches!(slot.state, State::Ending { .. }))
    }

    /// Ends what a spawner that was killed has left, and removes what it or
    /// argocd-cmp-server made; directories as the user they belong to, and not
    /// at once: nobody else can.
    pub(super) fn remove_stale(&mut self) -> Result<(), Unfit> {
        let unfit = |error| Unfit::Step { step: "clear the work directory", error };
        let Arrangement { root, users, census, .. } = &self.arrangement;
        let mut stale = Vec::new();
        for entry in fs::read_dir(&root.path).map_err(unfit)? {
            let entry = entry.map_err(unfit)?;
            let about = entry.metadata().map_err(unfit)?;
            let owner = Uid::from_raw(about.uid());
            let name = entry.file_name().to_string_lossy().into_owned();
            if about.is_dir() {
                stale.push((name, (owner != geteuid()).then_some(owner)));
            } else if fs::remove_file(entry.path()).is_err() {
                self.reports.push(Event::Left(name));
            }
        }
        if let Some(users) = users {
            leftovers::end(self.fork, users, stale.iter().filter_map(|(_, owner)| *owner));
        }
        for (name, tenant) in stale {
            let whose = Whose { tenant, killer: None, shared: None, census: *census };
            let cleaner = self.fork.fork(|| clean::clean(&root.directory, &name, &whose));
            self.children.insert(cleaner.map_err(unfit)?, Child::Stale(name));
        }
        Ok(())
    }

    pub(super) fn lease(&mut self, order: LeaseOrder, lines: Lines) {
        self.queue.push_back((order, lines));
        self.serve_queue(Instant::now());
    }

    /// Leases to whoever waits, as far as users have rested.
    fn serve_queue(&mut self, now: Instant) {
        while !self.queue.is_empty()
            && let Some((lease, index)) = self.slots.lease(now)
            && let Some((order, lines)) = self.queue.pop_front()
        {
            let uid = self.user(index).unwrap_or_else(geteuid).as_raw();
            self.reports.push(Event::Leased(Leased { ticket: order.ticket, lease, uid }));
            let (job, kind) = (order.ticket, order.kind());
            self.fork_worker(index, Waiting { job, kind, grants: order.grants, lines });
        }
    }

    /// Starts a further worker, after a sweep: what the command before it left
    /// must not be there to meet it.
    pub(super) fn start(&mut self, order: StartOrder, lines: Lines) {
        let StartOrder { job, grants, .. } = order;
        let worker = Waiting { job, kind: JobKind::Run, grants, lines };
        let Some(index) = self.slots.find(order.lease) else {
            return self.refuse(worker.job, "its lease has ended");
        };
        match self.slots.lease_mut(index) {
            None => self.refuse(worker.job, "its lease is ending"),
            Some(lease) => {
                lease.waiting = Some(worker);
                self.signal(index, Signal::SIGKILL);
            }
        }
    }

    fn fork_worker(&mut self, index: usize, worker: Waiting) {
        let user = self.user(index);
        let Waiting { job, kind, grants, lines } = worker;
        if let Err(error) = self.arrangement.root.renew() {
            return self.refuse(job, &error.to_string());
        }
        let shared = match self.share(&grants) {
            Ok(shared) => shared,
            Err(error) => return self.refuse(job, &format!("its caches: {error}")),
        };
        let Some(lease) = self.slots.lease_mut(index) else { return };
        lease.used = true;
        lease.shared = shared.clone().or(lease.shared.take());
        let root = &self.arrangement.root;
        let tenant = Tenant { user, workspace: root.path.join(&lease.workspace), shared };
        let site = Site {
            fork: self.fork,
            tier: self.arrangement.tier,
            policy: self.arrangement.policy.as_ref(),
            hidden: &self.arrangement.hidden,
            root: root.directory.as_fd(),
            root_path: &root.path,
        };
        let read = &grants.read;
        match self.fork.fork(|| Job::new(&site, &tenant, kind, lines).start(read)) {
            Ok(pid) => {
                lease.workers.insert(pid, job);
                if lease.rounds.is_none() {
                    lease.rounds = Rounds::begin(Instant::now(), grants.ceilings);
                }
                self.children.insert(pid, Child::Worker { slot: index, job });
            }
            Err(error) => self.refuse(job, &error.to_string()),
        }
    }

    /// The caches that a worker has, made if they are not there.
    fn share(&mut self, grants: &Grants) -> Result<Option<Shared>, NoCache> {
        if grants.caches.is_empty() {
            return Ok(None);
        }
        let Arrangement { caches, users, .. } = &mut self.arrangement;
        caches.prepare(grants, users.as_mut()).map(Some)
    }

    fn refuse(&mut self, job: u64, why: &str) {
        let failure = format!("start a worker: {why}");
        self.reports.push(Event::Ended(Ended { job, failure, ..Ended::default() }));
    }

    /// The user of a slot's tenant, where it has one of its own.
    fn user(&self, index: usize) -> Option<Uid> {
        self.slots.users(index).map(|pair| pair.tenant)
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
            Some(Child::Killer { slot, signal }) => {
                if reaped.status != 0 {
                    self.missed(slot);
                }
                self.signalled(slot, signal);
            }
            Some(Child::Cleaner { slot }) => {
                self.step(slot, |ending| ending.cleaned(now, clean::found(reaped.status)));
            }
            Some(Child::Gauge(look)) => self.looked(look, reaped.status, now),
            Some(Child::Stale(name)) if self.remove_directory(&name) => {}
            Some(Child::Stale(name)) => self.reports.push(Event::Left(name)),
            // An orphan of a tenant, handed to the nearest subreaper.
            None => {}
        }
    }

    /// A child was stopped. If that is a cleaner, somebody of its user was still
    /// there to do it, and would have it wait for good.
    pub(super) fn stopped(&mut self, pid: Pid) {
        if let Some(Child::Cleaner { slot }) = self.children.get(&pid) {
            let slot = *slot;
            self.signal(slot, Signal::SIGKILL);
        }
    }

    fn worker_ended(&mut self, index: usize, job: u64, reaped: Reaped) {
        if let Some(lease) = self.slots.any_lease_mut(index) {
            lease.workers.remove(&reaped.pid);
        }
        self.slots.hasten(index, Instant::now());
        self.start_waiting(index);
        self.reports.push(Event::Ended(Ended {
            job,
            status: reaped.status,
            used: reaped.into(),
            failure: String::new(),
        }));
    }

    /// Does what became due.
    pub(super) fn advance(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            if self.slots.take_wake(index, now) {
                self.step(index, |ending| ending.waited(now));
            }
            self.look_if_due(index, now);
        }
        self.serve_queue(now);
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
            Step::Kill => self.kill(index),
            Step::Clean => self.clean(index),
            Step::Wait(until) => self.slots.set_wake(index, until),
            Step::Free => self.end(index, false),
            Step::Quarantine => self.end(index, true),
        }
    }

    /// The last order to whoever works under a lease. Who cleans up afterwards
    /// ends the tenant's other processes first.
    fn kill(&mut self, index: usize) {
        self.order_workers(index, Signal::SIGKILL);
        let now = Instant::now();
        self.step(index, |ending| ending.signalled(now));
    }

    fn clean(&mut self, index: usize) {
        // A signal on its way could meet the user's next tenant.
        if self.is_signalling(index) {
            return self.slots.set_wake(index, Instant::now() + AFTER_SIGNAL);
        }
        let is_final = self.slots.ending_mut(index).is_some_and(|ending| ending.is_final());
        let pair = self.slots.users(index);
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        // A worker that was just forked is not the tenant's user yet, and would
        // make files once everything seems to be gone; a guard ends last.
        let is_busy = !lease.workers.is_empty();
        let (root, name) = (&self.arrangement.root.directory, lease.workspace.as_str());
        let whose = Whose {
            tenant: pair.map(|pair| pair.tenant),
            killer: pair.filter(|_| is_final).map(|pair| pair.killer),
            shared: lease.shared.as_ref(),
            census: self.arrangement.census,
        };
        let clean = || clean::clean(root, name, &whose);
        let cleaner = (!is_busy).then(|| self.fork.fork(clean));
        if let Some(Ok(pid)) = cleaner {
            self.children.insert(pid, Child::Cleaner { slot: index });
        } else {
            // Or there is no process to be had: tried again, for a while.
            let now = Instant::now();
            self.step(index, |ending| ending.cleaned(now, Found::Processes));
        }
    }

    fn is_cleaning(&self, index: usize) -> bool {
        let cleans = |child: &Child| matches!(child, Child::Cleaner { slot } if *slot == index);
        self.children.values().any(cleans)
    }

    fn end(&mut self, index: usize, quarantined: bool) {
        let Some(lease) = self.slots.any_lease_mut(index) else { return };
        let (id, name) = (lease.id, lease.workspace.clone());
        let quarantined = quarantined || !self.remove_directory(&name);
        self.slots.end(index, Instant::now(), quarantined);
        self.reports.push(Event::Released(Released { lease: id, quarantined }));
    }

    /// Removes a workspace's own directory, which is empty by now. That takes
    /// the right to write to the root, which no tenant has.
    fn remove_directory(&self, name: &str) -> bool {
        let root = &self.arrangement.root.directory;
        let removed = unlinkat(root, name, UnlinkatFlags::RemoveDir);
        matches!(removed, Ok(()) | Err(nix::errno::Errno::ENOENT))
    }

    /// Starts a worker that waited for the end of everything before it.
    fn start_waiting(&mut self, index: usize) {
        let lease = self.slots.lease_mut(index);
        let is_swept = |lease: &&mut Lease| !lease.used && lease.workers.is_empty();
        if let Some(worker) = lease.filter(is_swept).and_then(|lease| lease.waiting.take()) {
            self.fork_worker(index, worker);
        }
    }
}
