//! All leases, their workers and other children.

mod cgroup;
mod children;
mod clean;
mod measure;
mod passes;
mod pressed;
mod priority;
mod release;
mod signals;
mod stale;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    unistd::{Gid, Pid, Uid, geteuid},
};

use self::{
    children::{ChildRole, Orphans},
    passes::Passes,
    stale::StaleDirectory,
};
use super::{
    caches::NoCache,
    cleaner::Cleaner,
    duty::Duty,
    employment::Employment,
    no_process,
    pressure::Pressure,
    process_check::ProcessCheck,
    reserve::Reserve,
    setup::Prepared,
    slot::{LeaseRecord, PendingWorker, SlotState, Slots, Traces},
    turns::Turns,
    uid_pool::UidPool,
};
use crate::{
    kernel::fork::SingleThreaded,
    wire::{
        message::{
            Grants, JobKind, LeaseOrder, Leased, Ready, SpawnerEvent, StartOrder, WorkerEnded,
        },
        shared::SharedCaches,
        tier::Tier,
        usage::TotalLimits,
    },
    worker::{Channels, Job, REPOSITORY, SharedTree, Tenant},
};

/// This part of the slots is kept for owners that have no ending lease.
const KEPT_PART: usize = 4;

/// All slots and the children that work for them.
pub(super) struct Leases {
    fork: SingleThreaded,
    prepared: Prepared,
    slots: Slots,
    children: BTreeMap<Pid, ChildRole>,
    /// Processes that stand by to end leases.
    reserve: Reserve,
    /// The process that removes the files of most leases.
    cleaner: Cleaner,
    /// Leases whose files are being removed.
    turns: Turns,
    /// Directories that an earlier spawner left behind.
    stale: Vec<StaleDirectory>,
    /// Orders that wait for a UID. The supervisor never sends more than it has
    /// places.
    queue: VecDeque<(LeaseOrder, Channels)>,
    reports: Vec<SpawnerEvent>,
    passes: Passes,
    pressure: Pressure,
    /// Limits of all requests together.
    total: TotalLimits,
    orphans: Orphans,
}

impl Leases {
    pub(super) fn new(fork: SingleThreaded, mut prepared: Prepared, leases: u32) -> Self {
        let pressure = Pressure::new(prepared.memory.take());
        let slots = match &prepared.uids {
            Some(uids) => Slots::new(uids.pairs.iter().copied().map(Some)),
            None => Slots::new((0..leases).map(|_| None)),
        };
        let mut leases = Self {
            fork,
            prepared,
            slots,
            children: BTreeMap::new(),
            reserve: Reserve::new(fork),
            cleaner: Cleaner::new(fork),
            turns: Turns::default(),
            stale: Vec::new(),
            queue: VecDeque::new(),
            reports: Vec::new(),
            passes: Passes::new(),
            pressure,
            total: TotalLimits::default(),
            orphans: Orphans::default(),
        };
        // There is certainly room for a process now.
        leases.start_census();
        // If it fails, the first lease tries again.
        let _ = leases.cleaner.start(leases.prepared.cleaner_rights());
        leases
    }

    /// The first report to the supervisor.
    pub(super) fn ready(&self) -> Ready {
        let Prepared { uids, process_check, .. } = &self.prepared;
        Ready {
            leases: u32::try_from(self.slots.len()).unwrap_or(u32::MAX),
            tier: self.prepared.tier.into(),
            landlock: self.prepared.landlock,
            missing: self.prepared.missing.clone(),
            root: self.prepared.root.path.to_string_lossy().into_owned(),
            closed: self.closed_files(),
            no_cgroups: self.prepared.cgroups.as_ref().err().map(ToString::to_string),
            unlimited: uids.is_some() && *process_check == ProcessCheck::Listing,
        }
    }

    /// Takes the reports that were not sent yet.
    pub(super) fn take_reports(&mut self) -> Vec<SpawnerEvent> {
        std::mem::take(&mut self.reports)
    }

    /// Time of the next action.
    pub(super) fn due(&self) -> Option<Instant> {
        let reusable = self.next_order().and_then(|_| self.slots.next_reusable());
        let slots = self.slots.iter().filter_map(|(_, slot)| slot.wake());
        let own = [
            self.stale_due(),
            self.reserve.due(),
            self.passes.due(),
            self.pressure.due(),
            self.cleaner.due(),
        ];
        slots.chain(reusable).chain(own.into_iter().flatten()).min()
    }

    /// Returns true if a lease is being released. A quarantined one counts only
    /// while a process works on it.
    pub(super) fn any_releasing(&self) -> bool {
        self.slots.iter().any(|(index, slot)| match &slot.state {
            SlotState::Releasing { release, .. } => {
                !release.is_quarantined() || self.has_ender(index)
            }
            SlotState::Free { .. } | SlotState::Leased(_) => false,
        })
    }

    pub(super) fn lease(&mut self, order: LeaseOrder, channels: Channels) {
        self.queue.push_back((order, channels));
        self.serve_queue(Instant::now());
    }

    /// Gives leases to waiting orders while UIDs are available.
    fn serve_queue(&mut self, now: Instant) {
        while let Some(next) = self.next_order()
            && let Some((lease, index)) = self.slots.lease(now)
            && let Some((order, channels)) = self.queue.remove(next)
        {
            if let Some(lease) = self.slots.lease_mut(index) {
                lease.owner.clone_from(&order.grants.owner);
            }
            let uid = self.user(index).unwrap_or_else(geteuid).as_raw();
            self.reports.push(SpawnerEvent::Leased(Leased { ticket: order.ticket, lease, uid }));
            let (job, kind) = (order.ticket, order.kind());
            self.fork_worker(index, PendingWorker { job, kind, grants: order.grants, channels });
        }
    }

    /// The next order in the queue. While few slots are free, owners whose
    /// earlier leases are still ending let others go first.
    fn next_order(&self) -> Option<usize> {
        let is_scarce = self.slots.free() <= self.slots.len() / KEPT_PART;
        let may_go = |(order, _): &(LeaseOrder, Channels)| {
            !is_scarce || !self.slots.is_ending(&order.grants.owner)
        };
        self.queue.iter().position(may_go)
    }

    /// Starts another worker after killing the leftovers of the previous
    /// command, so that they cannot interfere with it.
    pub(super) fn start(&mut self, order: StartOrder, channels: Channels) {
        let StartOrder { job, grants, .. } = order;
        let worker = PendingWorker { job, kind: JobKind::Run, grants, channels };
        let Some(index) = self.slots.find(order.lease) else {
            return self.refuse(worker.job, "its lease has ended");
        };
        match self.slots.lease_mut(index) {
            None => self.refuse(worker.job, "its lease is ending"),
            Some(lease) => {
                lease.pending = Some(worker);
                self.sweep(index);
            }
        }
    }

    /// Files of the image that requests look up and their modes hide. In namespaces,
    /// the directories above them are others.
    fn closed_files(&self) -> Vec<String> {
        let is_by_uid = self.prepared.tier == Tier::Uid;
        let closed = is_by_uid.then(|| self.prepared.skeleton.closed());
        closed.unwrap_or_default()
    }

    fn fork_worker(&mut self, index: usize, worker: PendingWorker) {
        let user = self.user(index);
        let PendingWorker { job, kind, grants, channels } = worker;
        if let Err(error) = self.prepared.root.renew() {
            return self.refuse(job, &error.to_string());
        }
        let repository = match self.shared_repository(&grants) {
            Ok(repository) => repository,
            Err(why) => return self.refuse(job, why),
        };
        let shared = match self.share(&grants) {
            Ok(shared) => shared,
            Err(error) => return self.refuse(job, &format!("its caches: {error}")),
        };
        if let Err(error) = self.promise_end(index) {
            return self.refuse_process(job, &error);
        }
        if let Err(error) = self.create_cgroup(index, grants.limits) {
            return self.refuse(job, &format!("its cgroup: {error}"));
        }
        let Some(lease) = self.slots.lease_mut(index) else { return };
        lease.shared = shared.clone().or(lease.shared.take());
        let workspace = self.prepared.root.path.join(&lease.workspace);
        let tenant = Tenant { user, workspace, shared, repository, limits: grants.limits };
        let kit = self.prepared.kit(self.fork);
        let work = |channels| {
            // The child could outlive this process, and so would its claims. A
            // worker verifies its groups later.
            let _ = kit.uids.map(UidPool::leave);
            Job::new(&kit.worker, &tenant, kind, channels).start(&grants)
        };
        let forked = if let (Ok(cgroups), Some(cgroup)) = (&self.prepared.cgroups, &lease.cgroup) {
            // It must start inside.
            cgroups.fork(cgroup, || work(channels))
        } else {
            let employment = Employment::new(kind, &lease.workspace, &tenant, grants.clone());
            let own = [self.prepared.root.directory.as_fd()].into_iter();
            let descriptors: Vec<_> = own.chain(channels.descriptors()).collect();
            let standby = self.reserve.employ(&Duty::work(employment), &descriptors);
            standby.map_or_else(|| self.fork.fork(|| work(channels)), Ok)
        };
        match forked {
            Ok(pid) => {
                lease.traces = Traces::Processes;
                lease.workers.insert(pid, job);
                lease.priority.raised();
                lease.limits = grants.limits;
                self.children.insert(pid, ChildRole::Worker { slot: index, job });
            }
            Err(error) => self.refuse_process(job, &error),
        }
    }

    /// The caches of a worker, created if necessary.
    fn share(&mut self, grants: &Grants) -> Result<Option<SharedCaches>, NoCache> {
        if grants.caches.is_empty() {
            return Ok(None);
        }
        let Prepared { caches, uids, .. } = &mut self.prepared;
        caches.prepare(grants, uids.as_mut()).map(Some)
    }

    /// The repository of another lease that a worker reads. Its group is a leased UID,
    /// so no other request has it.
    fn shared_repository(&self, grants: &Grants) -> Result<Option<SharedTree>, &'static str> {
        let Some(id) = grants.repository else { return Ok(None) };
        let slot = self.slots.find(id).and_then(|index| self.slots.leased(index));
        let (lease, user) = slot.ok_or("the repository that it shares is gone")?;
        let workspace = self.prepared.root.path.join(&lease.workspace);
        let group = user.map(|pair| Gid::from_raw(pair.tenant.as_raw()));
        let group = group.ok_or("a repository is shared only between separate UIDs")?;
        Ok(Some(SharedTree { path: workspace.join(REPOSITORY), group }))
    }

    /// Refuses a job for lack of a process, and ends the request that has them.
    fn refuse_process(&mut self, job: u64, error: &io::Error) {
        if error.raw_os_error() == Some(Errno::EAGAIN as i32) {
            self.end_crowd();
        }
        self.refuse(job, &no_process::reason(error));
    }

    fn refuse(&mut self, job: u64, why: &str) {
        let failure = format!("start a worker: {why}");
        self.reports.push(SpawnerEvent::WorkerEnded(WorkerEnded {
            job,
            failure,
            ..WorkerEnded::default()
        }));
    }

    /// UID of a slot's tenant; `None` in tiers without separate UIDs.
    fn user(&self, index: usize) -> Option<Uid> {
        self.slots.uids(index).map(|pair| pair.tenant)
    }

    pub(super) fn stop(&mut self, lease: u64) {
        let index = self.slots.find(lease);
        if let Some(index) = index.filter(|index| self.slots.lease_mut(*index).is_some()) {
            self.signal_stop(index, Duration::ZERO);
        }
    }

    pub(super) fn release(&mut self, lease: u64, grace: Duration, is_cut_off: bool) {
        let Some(index) = self.slots.find(lease) else { return };
        // The supervisor remembers each worker until it hears of its end.
        self.refuse_pending(index, "the request has ended");
        if let Some(lease) = self.slots.lease_mut(index) {
            lease.is_cut_off = is_cut_off;
        }
        if let Some(step) = self.slots.begin_release(index, Instant::now(), grace) {
            self.take(index, step);
        }
    }

    pub(super) fn release_all(&mut self) {
        let now = Instant::now();
        for index in 0..self.slots.len() {
            if let Some(lease) = self.slots.lease_mut(index) {
                lease.is_cut_off = true;
            }
            if let Some(step) = self.slots.begin_release(index, now, Duration::ZERO) {
                self.take(index, step);
            }
        }
    }

    /// Does everything that is due.
    pub(super) fn advance(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            if self.slots.take_wake(index, now) {
                self.step(index, |release| release.waited(now));
            }
        }
        let unfinished = self.cleaner.give_up(now);
        self.end_unfinished(unfinished);
        self.retry_stale(now);
        self.serve_turns();
        self.look(now);
        self.pass_if_due(now);
        self.serve_queue(now);
        self.reserve.fill(self.prepared.kit(self.fork), now);
    }

    /// Makes sure that a process stands by to end the lease, before anything of
    /// its tenant can run.
    fn promise_end(&mut self, index: usize) -> io::Result<()> {
        if let Some(lease) = self.slots.lease_mut(index).filter(|lease| !lease.has_promise) {
            self.reserve.promise(self.prepared.kit(self.fork))?;
            lease.has_promise = true;
        }
        Ok(())
    }

    /// Starts the pending worker if no process of the previous command is left.
    fn start_waiting(&mut self, index: usize) {
        let lease = self.slots.lease_mut(index);
        let is_swept = |lease: &&mut LeaseRecord| {
            lease.traces != Traces::Processes && lease.workers.is_empty()
        };
        if let Some(worker) = lease.filter(is_swept).and_then(|lease| lease.pending.take()) {
            self.fork_worker(index, worker);
        }
    }
}
