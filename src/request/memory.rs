//! Memory for outputs and everything that is made of them, all requests
//! together.

use std::{
    borrow::Cow,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
};

use cmp_sandbox::FIRST_OUTPUT;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::deadline::{Deadline, DeadlinePassed};
use crate::budget::{Budget, Share, show};

/// Bytes that memory is counted in.
const UNIT: usize = 64 << 10;

/// Bytes of each request that are not counted: ordinary answers never wait. The
/// number of requests is limited, and with it the sum.
const FREE: usize = FIRST_OUTPUT;

/// Most units, so that a number of them fits into 32 bits.
const MAX_UNITS: usize = 1 << 28;

/// Memory that requests share. Cheap to clone.
///
/// Requests that find too little wait in order. Each of several may hold a part and
/// wait for the rest, so a part of the budget is kept for one request at a time: it
/// always proceeds, and gives its memory back.
#[derive(Clone, Debug)]
pub(super) struct ResponseMemory {
    units: Arc<Semaphore>,
    /// Number of units that exist.
    total: Arc<Mutex<usize>>,
    alone: Arc<Semaphore>,
    budget: watch::Receiver<Budget>,
    /// One request at a time may have any amount.
    is_open: bool,
}

/// The sizes of both parts, in units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    shared: usize,
    /// Most that the request with the other part may have.
    alone: usize,
}

/// The memory of one request. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct HeldMemory {
    memory: ResponseMemory,
    units: Option<OwnedSemaphorePermit>,
    /// The right to the part for one request.
    alone: Option<OwnedSemaphorePermit>,
}

/// The deadline passed before there was enough memory.
#[derive(Debug, Error)]
#[error(
    "{passed}; until then the request waited for memory for its output: the outputs and manifests \
     of all requests may take {} together ({})", show(budget.amount), budget.origin
)]
pub struct NoMemory {
    /// The deadline.
    pub passed: DeadlinePassed,
    budget: Share<u64>,
}

impl ResponseMemory {
    /// Memory of the budget's size for responses, at any time.
    #[must_use]
    pub(super) fn new(budget: watch::Receiver<Budget>) -> Self {
        let (units, alone) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(1)));
        Self { units, total: Arc::default(), alone, budget, is_open: false }
    }

    /// Memory of a fixed size in bytes, which one request at a time may exceed.
    #[must_use]
    pub(super) fn fixed(bytes: u64) -> Self {
        let outputs = Share::new(bytes, "a fixed limit");
        // The value stays although the sender is dropped.
        let budget = watch::channel(Budget { outputs, ..Budget::default() }).1;
        Self { is_open: true, ..Self::new(budget) }
    }

    /// Bytes of the shared part that are in use.
    pub(super) fn in_use(&self) -> u64 {
        let total = *self.total.lock().unwrap_or_else(PoisonError::into_inner);
        (total.saturating_sub(self.units.available_permits()) * UNIT) as u64
    }

    /// Most bytes that one request can have now.
    pub(super) fn most(&self) -> usize {
        self.sizes().alone.saturating_mul(UNIT).saturating_add(FREE)
    }

    fn sizes(&self) -> Sizes {
        let budget = self.budget.borrow();
        let units = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX) / UNIT;
        let (all, shared) = (units(budget.outputs.amount), units(budget.shared_outputs()));
        if self.is_open {
            Sizes { shared: all.min(MAX_UNITS), alone: MAX_UNITS }
        } else {
            Sizes { shared: shared.min(MAX_UNITS), alone: (all - shared).min(MAX_UNITS) }
        }
    }

    /// The origin of the budget.
    pub(super) fn origin(&self) -> Cow<'static, str> {
        self.budget.borrow().outputs.origin.clone()
    }

    /// Adjusts the number of units to the budget, and returns the sizes.
    pub(super) fn fit(&self) -> Sizes {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        // Not before the lock: a request with older sizes could come later.
        let sizes = self.sizes();
        let wanted = sizes.shared;
        if wanted > *total {
            self.units.add_permits(wanted - *total);
            *total = wanted;
        } else {
            // Units in use are taken away later.
            *total -= self.units.forget_permits(*total - wanted);
        }
        sizes
    }

    /// The error of a request whose deadline passed while it waited.
    pub(super) fn missing(&self, passed: DeadlinePassed) -> NoMemory {
        NoMemory { passed, budget: self.budget.borrow().outputs.clone() }
    }

    /// The memory of a request that has not used any yet.
    pub(super) fn hold(&self) -> HeldMemory {
        HeldMemory { memory: self.clone(), units: None, alone: None }
    }
}

impl HeldMemory {
    /// Waits until the request may use `bytes` in all.
    pub(super) async fn grow(&mut self, bytes: usize, deadline: &Deadline) -> Result<(), NoMemory> {
        let waited = deadline.limit(self.wait(bytes)).await;
        waited.map_err(|passed| self.memory.missing(passed))
    }

    /// Waits without a deadline until the request may use `bytes` in all: for ever
    /// if they are more than [`ResponseMemory::most`].
    pub(super) async fn wait(&mut self, bytes: usize) {
        let sizes = self.memory.fit();
        let missing = units(bytes).saturating_sub(self.held());
        let fits_alone = units(bytes) as usize <= sizes.alone;
        if missing == 0 || (self.alone.is_some() && fits_alone) {
            return;
        }
        // Waiting for more than there is would keep others from what is free.
        let fits = (missing + self.held()) as usize <= sizes.shared;
        let ResponseMemory { units, alone, .. } = self.memory.clone();
        let is_first = self.alone.is_none();
        tokio::select! {
            biased;
            Ok(more) = units.acquire_many_owned(missing), if fits => self.add(more),
            Ok(alone) = alone.acquire_owned(), if fits_alone && is_first => self.alone = Some(alone),
            () = pending(), if !fits_alone => {}
            else => {}
        }
    }

    /// Gives back all but `bytes`, and the part for one request as soon as the rest
    /// fits into the other.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let (kept, held) = (units(bytes), self.held());
        if let Some(surplus) = held.checked_sub(kept).filter(|surplus| *surplus > 0) {
            let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
            drop(self.units.as_mut().and_then(|units| units.split(surplus)));
            self.alone = None;
        } else if self.alone.is_some()
            && let Ok(more) = Arc::clone(&self.memory.units).try_acquire_many_owned(kept - held)
        {
            self.add(more);
            self.alone = None;
        }
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.units {
            Some(units) => units.merge(more),
            None => self.units = Some(more),
        }
    }

    fn held(&self) -> u32 {
        let held = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(held).unwrap_or(u32::MAX)
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_sub(FREE).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;
    use crate::metrics::Shared;

    const MIB: usize = 1 << 20;
    fn memory() -> ResponseMemory {
        ResponseMemory::fixed(10 << 20)
    }

    fn soon() -> Deadline {
        Deadline::new(None, Some(Duration::from_secs(1)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_exceeds_the_budget_and_others_wait_for_it() {
        let memory = memory();
        let (mut first, mut second, mut third) = (memory.hold(), memory.hold(), memory.hold());
        first.grow(6 * MIB, &Deadline::none()).await.unwrap();
        second.grow(90 * MIB, &Deadline::none()).await.unwrap();
        let error = third.grow(6 * MIB, &soon()).await.unwrap_err().to_string();
        assert!(error.contains("may take 10Mi together (a fixed limit)"), "{error}");
        drop(second);
        third.grow(6 * MIB, &soon()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_hold_a_part_do_not_wait_for_each_other() {
        let memory = memory();
        let (mut first, mut second) = (memory.hold(), memory.hold());
        first.grow(5 * MIB, &Deadline::none()).await.unwrap();
        second.grow(5 * MIB, &Deadline::none()).await.unwrap();
        first.grow(9 * MIB, &Deadline::none()).await.unwrap();
        assert!(second.grow(9 * MIB, &soon()).await.is_err());
        drop(first);
        second.grow(9 * MIB, &soon()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn ordinary_answers_never_wait() {
        let memory = memory();
        let mut all = memory.hold();
        all.grow(10 * MIB + FREE, &Deadline::none()).await.unwrap();
        let mut alone = memory.hold();
        alone.grow(10 * MIB, &Deadline::none()).await.unwrap();
        assert!(memory.hold().grow(FREE + 1, &soon()).await.is_err());
        memory.hold().grow(FREE, &soon()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back() {
        let memory = memory();
        let mut held = memory.hold();
        held.grow(8 * MIB, &Deadline::none()).await.unwrap();
        held.shrink(MIB);
        let mut other = memory.hold();
        other.grow(9 * MIB, &soon()).await.unwrap();
        assert!(other.alone.is_none());
        held.grow(30 * MIB, &soon()).await.unwrap();
        held.shrink(2 * MIB);
        assert!(held.alone.is_some(), "it does not fit yet");
        drop(other);
        held.shrink(2 * MIB);
        assert!(held.alone.is_none());
        held.grow(30 * MIB, &soon()).await.unwrap();
        held.shrink(MIB);
        assert!(held.alone.is_none(), "it needs less than it has without");
    }

    fn budget(bytes: u64) -> Budget {
        Budget { outputs: Share::new(bytes, "x"), ..Budget::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_never_exceed_the_budget() {
        const ALL: usize = 64;
        let (_resize, budget) = watch::channel(budget((ALL * MIB) as u64));
        let memory = ResponseMemory::new(budget);
        let most = memory.most() - FREE;
        assert_eq!(most, ALL * MIB * 3 / 4);
        let mut alone = memory.hold();
        alone.grow(most + FREE, &soon()).await.unwrap();
        let mut shared = 0;
        let mut others = Vec::new();
        loop {
            let mut other = memory.hold();
            if other.grow(MIB + FREE, &soon()).await.is_err() {
                break;
            }
            shared += MIB;
            others.push(other);
        }
        assert_eq!(shared + most, ALL * MIB);
        // More than the part for one request is never granted, even to one that has it.
        let error = alone.grow(most + FREE + 1, &soon()).await.unwrap_err().to_string();
        assert!(error.contains("may take 64Mi together (x)"), "{error}");
        drop((alone, others));
        assert!(memory.hold().grow(most + FREE + 1, &soon()).await.is_err());
    }

    /// The metrics of the budget have both numbers, and an alert compares them.
    #[tokio::test(start_paused = true)]
    async fn the_shared_part_can_be_in_use_completely() {
        let budget = budget((64 * MIB) as u64);
        let published = budget.amounts().into_iter().find(|(name, _)| *name == Shared::Outputs);
        let memory = ResponseMemory::new(watch::channel(budget).1);
        let mut others = Vec::new();
        while others.len() < 16 {
            let mut other = memory.hold();
            other.grow(MIB + FREE, &soon()).await.unwrap();
            others.push(other);
        }
        assert_eq!(Some((Shared::Outputs, memory.in_use())), published);
        let mut alone = memory.hold();
        alone.grow(40 * MIB, &soon()).await.unwrap();
        assert_eq!(Some((Shared::Outputs, memory.in_use())), published);
    }

    #[test]
    fn a_thread_that_waits_for_the_lock_brings_no_older_size_back() {
        let (resize, resized) = watch::channel(budget(4 * UNIT as u64));
        let memory = ResponseMemory::new(resized);
        thread::scope(|threads| {
            let total = memory.total.lock().unwrap();
            let fits = threads.spawn(|| memory.fit());
            // If it read the budget before the lock, it would have done so by now.
            thread::sleep(Duration::from_millis(300));
            resize.send_replace(budget(8 * UNIT as u64));
            drop(total);
            assert_eq!(fits.join().unwrap().shared, 2);
        });
        assert_eq!(*memory.total.lock().unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_size_follows_the_budget() {
        let budget = |shared: u64| budget(4 * shared);
        let (resize, resized) = watch::channel(budget(4 << 20));
        let memory = ResponseMemory::new(resized);
        let (mut first, mut second) = (memory.hold(), memory.hold());
        first.grow(4 * MIB, &soon()).await.unwrap();
        second.grow(4 * MIB, &soon()).await.unwrap();
        assert!(first.alone.is_none() && second.alone.is_some());
        resize.send_replace(budget(9 << 20));
        let mut third = memory.hold();
        third.grow(4 * MIB, &soon()).await.unwrap();
        resize.send_replace(budget(1 << 20));
        assert!(memory.hold().grow(MIB, &soon()).await.is_err());
        drop((first, third));
        memory.hold().grow(MIB, &soon()).await.unwrap();
        assert!(memory.hold().grow(2 * MIB, &soon()).await.is_err());
    }
}
