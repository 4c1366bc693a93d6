//! The users that can be leased, and what becomes of each.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::Pid;
use rand::RngExt;

use super::{
    release::{Release, ReleaseStep},
    schedule::Schedule,
    uid_pool::UidPair,
};
use crate::{
    wire::{
        message::{Grants, JobKind, RequestLimits},
        shared::SharedCaches,
    },
    worker::Channels,
};

/// How long a user rests before it is leased again. Nothing of a tenant is known
/// to outlive the end of a lease; the pause keeps a mistake in that from
/// meeting the next tenant at once.
pub(super) const IDLE_TIME: Duration = Duration::from_millis(100);

/// One place for a lease.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) uids: Option<UidPair>,
    pub(super) state: SlotState,
}

/// free → leased → ending → free, or quarantined.
#[derive(Debug)]
pub(super) enum SlotState {
    Free { since: Option<Instant> },
    Leased(LeaseRecord),
    Releasing { lease: LeaseRecord, release: Release, wake: Option<Instant> },
    Quarantined,
}

/// What belongs to a request for as long as it lasts.
#[derive(Debug)]
pub(super) struct LeaseRecord {
    pub(super) id: u64,
    /// Name of its directory: 128 random bits, so that nobody can guess it.
    pub(super) workspace: String,
    pub(super) workers: BTreeMap<Pid, u64>,
    /// A command of the tenant ran, so anything may have been left behind.
    pub(super) used: bool,
    /// The caches that its commands have, for the end.
    pub(super) shared: Option<SharedCaches>,
    /// A worker that waits until what was left behind is gone.
    pub(super) pending: Option<PendingWorker>,
    /// When it was leased, as files are stamped.
    pub(super) since: SystemTime,
    /// Looks at what its commands take, once one runs that has limits.
    pub(super) schedule: Option<Schedule>,
    /// What all that it consists of may take together.
    pub(super) limits: RequestLimits,
}

/// A worker to be.
#[derive(Debug)]
pub(super) struct PendingWorker {
    pub(super) job: u64,
    pub(super) kind: JobKind,
    pub(super) grants: Grants,
    pub(super) channels: Channels,
}

/// All places, the longest unused first.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    free: VecDeque<usize>,
    last_lease: u64,
}

impl Slot {
    /// When something is to be done about it.
    pub(super) fn wake(&self) -> Option<Instant> {
        match self.state {
            SlotState::Releasing { wake, .. } => wake,
            SlotState::Leased(ref lease) => lease.schedule.as_ref()?.due(),
            SlotState::Free { .. } | SlotState::Quarantined => None,
        }
    }

    fn lease(&self) -> Option<&LeaseRecord> {
        match &self.state {
            SlotState::Leased(lease) | SlotState::Releasing { lease, .. } => Some(lease),
            SlotState::Free { .. } | SlotState::Quarantined => None,
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

    /// The slot that lease `id` is on.
    pub(super) fn find(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|slot| slot.lease().is_some_and(|lease| lease.id == id))
    }

    /// When the user that rests longest has rested, if one rests.
    pub(super) fn next_reusable(&self) -> Option<Instant> {
        match self.all.get(*self.free.front()?)?.state {
            SlotState::Free { since } => Some(since? + IDLE_TIME),
            SlotState::Leased(_) | SlotState::Releasing { .. } | SlotState::Quarantined => None,
        }
    }

    /// The users of a slot, where it has any of its own.
    pub(super) fn uids(&self, index: usize) -> Option<UidPair> {
        self.all.get(index).and_then(|slot| slot.uids)
    }

    /// The lease on a slot, unless it is ending.
    pub(super) fn lease_mut(&mut self, index: usize) -> Option<&mut LeaseRecord> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Leased(lease) => Some(lease),
            SlotState::Free { .. } | SlotState::Releasing { .. } | SlotState::Quarantined => None,
        }
    }

    /// The lease on a slot, whatever its state.
    pub(super) fn any_lease_mut(&mut self, index: usize) -> Option<&mut LeaseRecord> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Leased(lease) | SlotState::Releasing { lease, .. } => Some(lease),
            SlotState::Free { .. } | SlotState::Quarantined => None,
        }
    }

    pub(super) fn release_mut(&mut self, index: usize) -> Option<&mut Release> {
        match &mut self.all.get_mut(index)?.state {
            SlotState::Releasing { release, .. } => Some(release),
            SlotState::Free { .. } | SlotState::Leased(_) | SlotState::Quarantined => None,
        }
    }

    pub(super) fn set_wake(&mut self, index: usize, at: Instant) {
        if let Some(SlotState::Releasing { wake, .. }) =
            self.all.get_mut(index).map(|slot| &mut slot.state)
        {
            *wake = Some(at);
        }
    }

    /// What a slot waits for may have happened: it waits no longer.
    pub(super) fn wake_now(&mut self, index: usize, now: Instant) {
        if let Some(SlotState::Releasing { wake: Some(wake), .. }) =
            self.all.get_mut(index).map(|slot| &mut slot.state)
        {
            *wake = now;
        }
    }

    /// Whether a slot's time has come; only once.
    pub(super) fn take_wake(&mut self, index: usize, now: Instant) -> bool {
        match self.all.get_mut(index).map(|slot| &mut slot.state) {
            Some(SlotState::Releasing { wake, .. }) => wake.take_if(|at| *at <= now).is_some(),
            _ => false,
        }
    }

    /// A lease begins to end, unless it did before.
    pub(super) fn begin_release(
        &mut self,
        index: usize,
        now: Instant,
        grace: Duration,
    ) -> Option<ReleaseStep> {
        let slot = self.all.get_mut(index)?;
        match std::mem::replace(&mut slot.state, SlotState::Quarantined) {
            SlotState::Leased(lease) => {
                let busy = lease.used || !lease.workers.is_empty();
                let (release, step) = Release::begin(now, grace, busy);
                slot.state = SlotState::Releasing { lease, release, wake: None };
                Some(step)
            }
            other @ (SlotState::Free { .. }
            | SlotState::Releasing { .. }
            | SlotState::Quarantined) => {
                slot.state = other;
                None
            }
        }
    }

    /// A lease has ended: its user is free, or was never to be used again.
    pub(super) fn end(&mut self, index: usize, now: Instant, quarantined: bool) {
        let Some(slot) = self.all.get_mut(index) else { return };
        if quarantined {
            slot.state = SlotState::Quarantined;
        } else {
            slot.state = SlotState::Free { since: Some(now) };
            self.free.push_back(index);
        }
    }

    /// Leases the user that rested longest: the lease and its slot.
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
            workspace: format!("{:032x}", rand::rng().random::<u128>()),
            workers: BTreeMap::new(),
            used: false,
            shared: None,
            pending: None,
            since: SystemTime::now(),
            limits: RequestLimits::default(),
            schedule: None,
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
    fn a_user_is_never_leased_twice_at_a_time() {
        let mut slots = slots();
        let now = Instant::now();
        let uids: Vec<_> = std::iter::from_fn(|| slots.lease(now)).collect();
        assert_eq!(uids, [(1, 0), (2, 1)]);
    }

    #[test]
    fn a_user_rests_before_it_is_leased_again() {
        let mut slots = slots();
        let now = Instant::now();
        while slots.lease(now).is_some() {}
        slots.end(1, now, false);
        assert_eq!(slots.lease(now), None);
        assert_eq!(slots.lease(now + IDLE_TIME), Some((3, 1)));
    }

    #[test]
    fn the_user_that_rested_longest_comes_first() {
        let mut slots = slots();
        let now = Instant::now();
        let (lease, _) = slots.lease(now).unwrap();
        let index = slots.find(lease).unwrap();
        slots.end(index, now, false);
        assert_eq!(slots.lease(now).unwrap().1, 1);
    }
}
