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
mod workers;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use nix::unistd::{Pid, Uid, geteuid};

use self::{
    children::{ChildRole, Orphans},
    passes::Passes,
    stale::StaleDirectory,
};
use super::{
    census::unlisted_sockets,
    cleaner::Cleaner,
    pressure::Pressure,
    process_check::ProcessCheck,
    reserve::Reserve,
    rise::Rise,
    setup::Prepared,
    slot::{PendingWorker, SlotState, Slots},
    turns::Turns,
};
use crate::{
    kernel::fork::SingleThreaded,
    wire::{
        message::{LeaseOrder, Leased, Ready, SpawnerEvent},
        tier::Tier,
        usage::TotalLimits,
    },
    worker::Channels,
};

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
    queue: VecDeque<(LeaseOrder, Option<Channels>)>,
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
        let has_cgroups = prepared.cgroups.is_ok();
        let mut leases = Self {
            fork,
            slots,
            children: BTreeMap::new(),
            reserve: Reserve::new(fork, prepared.tier, has_cgroups),
            prepared,
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
            unlisted_sockets: self.prepared.diagnostics.as_ref().err().map(unlisted_sockets),
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

    pub(super) fn lease(&mut self, order: LeaseOrder, channels: Option<Channels>) {
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
                lease.tally.rise = Rise::begin(&self.prepared.root.directory);
            }
            let uid = self.user(index).unwrap_or_else(geteuid).as_raw();
            let is_alone = self.prepared.tier == Tier::Uid && !self.prepared.observes;
            let (job, kind) = (order.job, order.kind());
            self.reports.push(SpawnerEvent::Leased(Leased { job, lease, uid, is_alone }));
            self.fork_worker(index, PendingWorker { job, kind, grants: order.grants, channels });
        }
    }

    /// The next order in the queue.
    fn next_order(&self) -> Option<usize> {
        self.queue.iter().position(|(order, _)| self.slots.are_open_to(&order.grants.owner))
    }

    /// Files of the image that requests look up and their modes hide. In namespaces,
    /// the directories above them are others.
    fn closed_files(&self) -> Vec<String> {
        let is_by_uid = self.prepared.tier == Tier::Uid;
        let closed = is_by_uid.then(|| self.prepared.skeleton.closed());
        closed.unwrap_or_default()
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
        let mut grace = grace;
        if let Some(lease) = self.slots.lease_mut(index) {
            lease.is_cut_off = is_cut_off;
            // The supervisor releases a lease some time after its last decision, and may not
            // have heard of this one.
            if lease.schedule.as_ref().is_some_and(|schedule| !schedule.is_active()) {
                grace = Duration::ZERO;
            }
        }
        self.reserve.resume();
        if let Some(step) = self.slots.begin_release(index, Instant::now(), grace) {
            self.take(index, step);
        }
    }

    /// Ends all leases. Commands that got SIGTERM before have until `last`.
    pub(super) fn release_all(&mut self, last: Instant) {
        let now = Instant::now();
        // The requests that wait have ended too.
        self.queue.clear();
        for index in 0..self.slots.len() {
            if let Some(lease) = self.slots.lease_mut(index) {
                lease.is_cut_off = true;
            }
            if let Some(step) = self.slots.begin_release(index, now, Duration::ZERO) {
                self.take(index, step);
            } else {
                self.slots.wake_by(index, last);
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
}
