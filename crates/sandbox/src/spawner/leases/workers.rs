//! Starts the workers of leases.

use std::{io, os::fd::AsFd, time::Instant};

use nix::unistd::Gid;

use super::{ChildRole, Leases};
use crate::{
    kernel::{fork::close_all_but, no_process, policy::Policy},
    spawner::{
        caches::NoCache,
        duty::Duty,
        employment::Employment,
        root::NoWorkspaceRoot,
        setup::Prepared,
        slot::{LeaseRecord, PendingWorker, Remains},
        uid_pool::UidPool,
    },
    wire::{
        channel::NO_ROOM,
        message::{Grants, JobKind, SpawnerEvent, StartOrder, WorkerEnd, WorkerEnded},
        shared::SharedCaches,
        tier::Tier,
    },
    worker::{Channels, Job, REPOSITORY, SharedTree, Tenant, WorkerContext, namespaces},
};

/// Reasons why a worker cannot start.
enum NoWorker {
    /// No process can be created.
    Process(io::Error),
    /// Anything else, in words.
    Other(String),
}

impl From<NoWorkspaceRoot> for NoWorker {
    fn from(error: NoWorkspaceRoot) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<NoCache> for NoWorker {
    fn from(error: NoCache) -> Self {
        Self::Other(format!("its caches: {error}"))
    }
}

impl From<String> for NoWorker {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<&str> for NoWorker {
    fn from(why: &str) -> Self {
        Self::Other(why.to_owned())
    }
}

/// The reason of an error of fork(2). Only namespaces can be the ones without space.
fn not_forked(error: io::Error) -> NoWorker {
    if error.kind() == io::ErrorKind::StorageFull {
        return NoWorker::Other(format!("create namespaces: {}", namespaces::explained(error)));
    }
    NoWorker::Process(error)
}

/// Closes all descriptors of the spawner that a worker does not need, as a process on standby
/// does. A guard or an init would hold the spawner's connection open, and the supervisor would
/// not notice the spawner's end. Without one of them, the worker itself closes them later.
fn keep_only(context: &WorkerContext<'_>, channels: &Channels) {
    if context.tier == Tier::Uid {
        return;
    }
    let places = context.policy.into_iter().flat_map(Policy::descriptors);
    let own = channels.descriptors().chain([context.root]);
    // The spawner has tested the call at start.
    let _ = close_all_but(places.chain(own));
}

impl Leases {
    /// Starts another worker after killing the leftovers of the previous
    /// command, so that they cannot interfere with it.
    pub(in crate::spawner) fn start(&mut self, order: StartOrder, channels: Option<Channels>) {
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

    /// Starts a worker, or reports why it cannot start.
    pub(super) fn fork_worker(&mut self, index: usize, worker: PendingWorker) {
        let job = worker.job;
        match self.try_worker(index, worker) {
            Ok(()) => {}
            Err(NoWorker::Process(error)) => self.refuse_process(job, &error),
            Err(NoWorker::Other(why)) => self.refuse(job, &why),
        }
    }

    fn try_worker(&mut self, index: usize, worker: PendingWorker) -> Result<(), NoWorker> {
        let PendingWorker { job, kind, grants, channels } = worker;
        let channels = channels.ok_or_else(|| format!("of its order, {NO_ROOM}"))?;
        self.prepared.root.renew()?;
        let repository = self.shared_repository(&grants)?;
        let shared = self.share(&grants)?;
        self.promise_end(index).map_err(NoWorker::Process)?;
        let cgroup = self.create_cgroup(index, grants.limits);
        cgroup.map_err(|error| NoWorker::Other(format!("its cgroup: {error}")))?;
        let user = self.user(index);
        let Some(lease) = self.slots.lease_mut(index) else { return Ok(()) };
        lease.shared = shared.clone().or(lease.shared.take());
        let workspace = self.prepared.root.path.join(&lease.workspace);
        let tenant = Tenant { user, workspace, shared, repository, limits: grants.limits };
        let kit = self.prepared.kit(self.fork);
        let work = |channels: Channels| {
            // The child could outlive this process, and so would its claims. A
            // worker verifies its groups later.
            let _ = kit.uids.map(UidPool::leave);
            keep_only(&kit.worker, &channels);
            Job::new(&kit.worker, &tenant, kind, channels).start(&grants)
        };
        let birth = kit.worker.birth();
        let forked = if let (Ok(cgroups), Some(cgroup)) = (&self.prepared.cgroups, &lease.cgroup) {
            // It must start inside.
            cgroups.fork(cgroup, birth, || work(channels))
        } else {
            let employment = Employment::new(kind, &lease.workspace, &tenant, grants.clone());
            let own = [self.prepared.root.directory.as_fd()].into_iter();
            let descriptors: Vec<_> = own.chain(channels.descriptors()).collect();
            let standby = self.reserve.employ(&Duty::work(employment), &descriptors);
            standby.map_or_else(|| self.fork.fork_at(birth, || work(channels)), Ok)
        };
        let pid = forked.map_err(not_forked)?;
        lease.remains = Remains::ProcessesAndFiles;
        lease.workers.insert(pid, job);
        lease.priority.raised();
        lease.limits = grants.limits;
        self.children.insert(pid, ChildRole::Worker { slot: index, job });
        Ok(())
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
    pub(super) fn start_waiting(&mut self, index: usize) {
        let lease = self.slots.lease_mut(index);
        let is_swept = |lease: &&mut LeaseRecord| {
            lease.remains != Remains::ProcessesAndFiles && lease.workers.is_empty()
        };
        if let Some(worker) = lease.filter(is_swept).and_then(|lease| lease.pending.take()) {
            self.fork_worker(index, worker);
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

    /// Refuses a job for lack of a process. The next pass that begins tells who has them.
    pub(super) fn refuse_process(&mut self, job: u64, error: &io::Error) {
        if no_process::is_limit(error) {
            self.passes.refused(Instant::now());
        }
        self.refuse(job, &no_process::reason(error));
    }

    pub(super) fn refuse(&mut self, job: u64, why: &str) {
        let end = Some(WorkerEnd::NotStarted(format!("start a worker: {why}")));
        self.reports.push(SpawnerEvent::WorkerEnded(WorkerEnded { job, end }));
    }
}
