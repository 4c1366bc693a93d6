//! Slots for leases, and their states.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::Pid;
use rand::RngExt;

use super::{
    cgroup::RequestCgroup,
    priority::Priority,
    release::{Release, ReleaseStep},
    schedule::Schedule,
    tally::Tally,
    uid_pool::UidPair,
};
use crate::{
    wire::{
        message::{Grants, JobKind, RequestLimits},
        shared::SharedCaches,
    },
    worker::Channels,
};

/// Time that a released UID stays idle before reuse. Nothing of a tenant is
/// known to survive its lease; this is a precaution.
pub(super) const IDLE_TIME: Duration = Duration::from_millis(100);

/// This part of the slots is kept for owners that have no ending lease, and no more
/// than this part in quarantine.
const KEPT_PART: usize = 4;

/// One place for a lease.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) uids: Option<UidPair>,
    pub(super) state: SlotState,
}

/// free → leased → releasing → free
#[derive(Debug)]
pub(super) enum SlotState {
    Free { since: Option<Instant> },
    Leased(LeaseRecord),
    Releasing { lease: LeaseRecord, release: Release, wake: Option<Instant> },
}

/// Leftovers that a lease may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// No worker was started.
    Nothing,
    /// All processes were killed.
    Files,
    ProcessesAndFiles,
}

/// Data of one lease.
#[derive(Debug)]
pub(super) struct LeaseRecord {
    pub(super) id: u64,
    /// Owner of its caches: the plugin.
    pub(super) owner: String,
    /// Name of the workspace: 128 random bits, which nobody can guess.
    pub(super) workspace: String,
    pub(super) workers: BTreeMap<Pid, u64>,
    pub(super) remains: Remains,
    /// A process of the reserve is promised to this lease.
    pub(super) has_promise: bool,
    /// The process that ends the lease waits for the last worker.
    pub(super) awaits_workers: bool,
    /// Caches of its commands, which the process that ends the lease hands on.
    pub(super) shared: Option<SharedCaches>,
    /// A command may have started, and has not ended by itself; also before the first one.
    pub(super) is_cut_off: bool,
    /// A worker that waits until the previous command's leftovers are killed.
    pub(super) pending: Option<PendingWorker>,
    /// Start of the lease, to compare with file timestamps.
    pub(super) since: SystemTime,
    /// Start of the lease on the clock that never jumps.
    pub(super) began: Instant,
    /// Usage so far.
    pub(super) tally: Tally,
    pub(super) priority: Priority,
    /// Schedule of measurements, if a command has run.
    pub(super) schedule: Option<Schedule>,
    /// Cgroup of its processes, once there were some.
    pub(super) cgroup: Option<RequestCgroup>,
    /// Limits of the request as a whole.
    pub(super) limits: RequestLimits,
}

/// A worker to start.
#[derive(Debug)]
pub(super) struct PendingWorker {
    pub(super) job: u64,
    pub(super) kind: JobKind,
    pub(super) grants: Grants,
    /// `None` if the kernel dropped them.
    pub(super) channels: Option<Channels>,
}

/// All slots, and the free ones in the order of their release.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    free: VecDeque<usize>,
    last_lease: u64,
}

impl Slot {
    /// Time of the next action for this slot.
    pub(super) fn wake(&self) -> Option<Instant> {
        match self.state {
            SlotState::Releasing { wake, .. } => wake,
            SlotState::Leased(_) | SlotState::Free { .. } => None,
        }
    }

    /// The processes of its lease may work.
    fn is_working(&self) -> bool {
        match &self.state {
            SlotState::Leased(_) => true,
            SlotState::Releasing { release, .. } => release.is_stopping(),
            SlotState::Free { .. } => false,
        }
    }

    /// The release of its lease has not succeeded for long, so nobody counts its processes
    /// any more.
    pub(super) fn is_quarantined(&self) -> bool {
        matches!(&self.state, SlotState::Releasing { release, .. } if release.is_quarantined())
    }

    /// The lease whose processes may work.
    pub(super) fn working(&self) -> Option<&LeaseRecord> {
        self.lease().filter(|_| self.is_working())
    }

    /// The lease, even if it is being released.
    pub(super) fn lease(&self) -> Option<&LeaseRecord> {
        match &self.state {
            SlotState::Leased(lease) | SlotState::Releasing { lease, .. } => Some(lease),
            SlotState::Free { .. } => None,
        }
    }
}

impl Slots {
    pub(super) fn new(uids: impl Iterator<Item = Option<UidPair>>) -> Self {
        let all: Vec<_> =
            uids.map(|uids| Slot { uids, state: SlotState::Free { since: None } }).collect();
        Self { free: (0..all.len()).collect(), all, last_lease: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.all.iter().enumerate()
    }

    /// Returns true if this owner may have a slot. While few slots are free, an owner whose
    /// earlier leases are still ending lets others go first. A few leases in quarantine do
    /// not count, because they may never end; more would take the slots of all others.
    pub(super) fn are_open_to(&self, owner: &str) -> bool {
        let kept = self.all.len() / KEPT_PART;
        if self.free.len() > kept {
            return true;
        }
        let ending = self.all.iter().filter(|slot| match &slot.state {
            SlotState::Releasing { lease, .. } => lease.owner == owner,
            SlotState::Free { .. } | SlotState::Leased(_) => false,
        });
        let (stuck, soon): (Vec<_>, Vec<_>) = ending.partition(|slot| slot.is_quarantined());
        soon.is_empty() && stuck.len() <= kept
    }

    /// Index of the slot that has lease `id`.
    pub(super) fn find(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|slot| slot.lease().is_some_and(|lease| lease.id == id))
    }

    /// Time at which the next idle UID can be leased again.
    pub(super) fn next_reusable(&self) -> Option<Instant> {
        match self.all.get(*self.free.front()?)?.state {
            SlotState::Free { since } => Some(since? + IDLE_TIME),
            SlotState::Leased(_) | SlotState::Releasing { .. } => None,
        }
    }

    /// UIDs of a slot; `None` in tiers without separate UIDs.
    pub(super) fn uids(&self, index: usize) -> Option<UidPair> {
        self.all.get(index).and_then(|slot| slot.uids)
    }

    /// The lease of a slot and its UIDs, unless it is being released.
    pub(super) fn leased(&self, index: usize) -> Option<(&LeaseRecord, Option<UidPair>)> {
        let slot = self.all.get(index)?;
        match &slot.state {
            SlotState::Leased(lease) => Some((lease, slot.uids)),
            SlotState::Free { .. } | SlotState::Releasing { .. } => None,
        }
    }

    /// The lease of a slot, unless it is being released.
    pub(super) fn lease_mut(&mut self, index: usize) -> Option<&mut LeaseRecord> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Leased(lease) => Some(lease),
            SlotState::Free { .. } | SlotState::Releasing { .. } => None,
        }
    }

    /// The lease of a slot whose processes may work: also while it is being released,
    /// between SIGTERM and SIGKILL.
    pub(super) fn working_mut(&mut self, index: usize) -> Option<&mut LeaseRecord> {
        let slot = self.all.get_mut(index)?;
        if !slot.is_working() {
            return None;
        }
        self.any_lease_mut(index)
    }

    /// The lease of a slot, even if it is being released.
    pub(super) fn any_lease_mut(&mut self, index: usize) -> Option<&mut LeaseRecord> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Leased(lease) | SlotState::Releasing { lease, .. } => Some(lease),
            SlotState::Free { .. } => None,
        }
    }

    pub(super) fn release_mut(&mut self, index: usize) -> Option<&mut Release> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Releasing { release, .. } => Some(release),
            SlotState::Free { .. } | SlotState::Leased(_) => None,
        }
    }

    pub(super) fn set_wake(&mut self, index: usize, at: Instant) {
        if let Some(SlotState::Releasing { wake, .. }) =
            self.all.get_mut(index).map(|slot| &mut slot.state)
        {
            *wake = Some(at);
        }
    }

    /// Ends the wait of a release at this time if it would be longer.
    pub(super) fn wake_by(&mut self, index: usize, at: Instant) {
        if let Some(SlotState::Releasing { wake: Some(wake), .. }) =
            self.all.get_mut(index).map(|slot| &mut slot.state)
        {
            *wake = at.min(*wake);
        }
    }

    /// Returns true once when the wait of a release is over.
    pub(super) fn take_wake(&mut self, index: usize, now: Instant) -> bool {
        match self.all.get_mut(index).map(|slot| &mut slot.state) {
            Some(SlotState::Releasing { wake, .. }) => wake.take_if(|at| *at <= now).is_some(),
            _ => false,
        }
    }

    /// Starts the release of a lease, unless it has started already.
    pub(super) fn begin_release(
        &mut self,
        index: usize,
        now: Instant,
        grace: Duration,
    ) -> Option<ReleaseStep> {
        let slot = self.all.get_mut(index)?;
        match std::mem::replace(&mut slot.state, SlotState::Free { since: None }) {
            SlotState::Leased(lease) => {
                let (release, step) = Release::begin(now, grace, lease.remains != Remains::Nothing);
                slot.state = SlotState::Releasing { lease, release, wake: None };
                Some(step)
            }
            other @ (SlotState::Free { .. } | SlotState::Releasing { .. }) => {
                slot.state = other;
                None
            }
        }
    }

    /// Ends a release: the slot becomes free.
    pub(super) fn end(&mut self, index: usize, now: Instant) {
        let Some(slot) = self.all.get_mut(index) else { return };
        slot.state = SlotState::Free { since: Some(now) };
        self.free.push_back(index);
    }

    /// Leases the UID that has been idle longest. Returns the lease and its
    /// slot.
    pub(super) fn lease(&mut self, now: Instant) -> Option<(u64, usize)> {
        let index = *self.free.front()?;
        let slot = self.all.get_mut(index)?;
        let SlotState::Free { since } = slot.state else { return None };
        if since.is_some_and(|since| now - since < IDLE_TIME) {
            return None;
        }
        self.free.pop_front();
        self.last_lease += 1;
        slot.state = SlotState::Leased(LeaseRecord {
            id: self.last_lease,
            owner: String::new(),
            workspace: format!("{:032x}", rand::rng().random::<u128>()),
            workers: BTreeMap::new(),
            remains: Remains::Nothing,
            has_promise: false,
            awaits_workers: false,
            shared: None,
            is_cut_off: true,
            cgroup: None,
            pending: None,
            since: SystemTime::now(),
            began: now,
            limits: RequestLimits::default(),
            schedule: None,
            tally: Tally::default(),
            priority: Priority::default(),
        });
        Some((self.last_lease, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new([None, None].into_iter())
    }

    #[test]
    fn a_uid_is_never_leased_twice_at_a_time() {
        let mut slots = slots();
        let now = Instant::now();
        let uids: Vec<_> = std::iter::from_fn(|| slots.lease(now)).collect();
        assert_eq!(uids, [(1, 0), (2, 1)]);
    }

    #[test]
    fn a_released_uid_stays_idle_before_reuse() {
        let mut slots = slots();
        let now = Instant::now();
        while slots.lease(now).is_some() {}
        slots.end(1, now);
        assert_eq!(slots.lease(now), None);
        assert_eq!(slots.lease(now + IDLE_TIME), Some((3, 1)));
    }

    /// Leases a slot to this owner.
    fn lease_to(slots: &mut Slots, owner: &str, now: Instant) -> Option<usize> {
        let (_, index) = slots.lease(now)?;
        let lease = slots.lease_mut(index).unwrap();
        (lease.owner, lease.remains) = (owner.to_owned(), Remains::ProcessesAndFiles);
        Some(index)
    }

    #[test]
    fn an_owner_whose_lease_is_ending_waits_while_few_slots_are_free() {
        let mut slots = slots();
        let now = Instant::now();
        let index = lease_to(&mut slots, "helm", now).unwrap();
        slots.begin_release(index, now, Duration::ZERO);
        assert!(slots.are_open_to("helm"));
        lease_to(&mut slots, "kustomize", now).unwrap();
        assert!(!slots.are_open_to("helm") && slots.are_open_to("kustomize"));
        slots.end(index, now);
        assert!(slots.are_open_to("helm"));
    }

    #[test]
    fn no_more_leases_in_quarantine_than_are_kept_let_their_owner_go() {
        let mut slots = Slots::new([None; 8].into_iter());
        let now = Instant::now();
        while lease_to(&mut slots, "helm", now).is_some() {}
        let seen = [0, 1, 2].map(|index| {
            slots.begin_release(index, now, Duration::ZERO);
            let before = slots.are_open_to("helm");
            assert!(slots.release_mut(index).unwrap().quarantine());
            (before, slots.are_open_to("helm"))
        });
        assert_eq!(seen, [(false, true), (false, true), (false, false)]);
    }

    #[test]
    fn the_uid_that_was_idle_longest_is_leased_first() {
        let mut slots = slots();
        let now = Instant::now();
        let (lease, _) = slots.lease(now).unwrap();
        let index = slots.find(lease).unwrap();
        slots.end(index, now);
        assert_eq!(slots.lease(now).unwrap().1, 1);
    }
}
