//! Requests that wait, and the room that there is for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, WAITING};

/// A number of requests that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiters {
    pub(super) requests: usize,
    /// Bytes that they hold, beyond those that each request may.
    pub(super) held: u64,
}

/// The room for requests that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) requests: usize,
    /// Bytes of memory, also for what each request may hold.
    pub(super) memory: u64,
}

/// The part of the room that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Requests,
    Memory,
}

/// Counts requests that wait, on all threads.
#[derive(Debug, Default)]
pub(super) struct WaiterCounter(Mutex<Waiters>);

impl Waiters {
    pub(super) fn add(&mut self, held: u64) {
        self.requests += 1;
        self.held = self.held.saturating_add(held);
    }

    pub(super) fn remove(&mut self, held: u64) {
        self.requests -= 1;
        self.held = self.held.saturating_sub(held);
    }
}

impl Room {
    /// The part of one of several plugins.
    pub(super) fn part(self, plugins: usize) -> Self {
        let plugins = plugins.max(1);
        Self { requests: self.requests / plugins, memory: self.memory / plugins as u64 }
    }

    /// Checks that a further request may wait that holds so many bytes.
    pub(super) fn check(self, waiters: Waiters, held: u64) -> Result<(), Lack> {
        if waiters.requests >= self.requests {
            return Err(Lack::Requests);
        }
        let each = WAITING.saturating_mul(waiters.requests as u64 + 1);
        let memory = each.saturating_add(waiters.held).saturating_add(held);
        if memory <= self.memory { Ok(()) } else { Err(Lack::Memory) }
    }
}

impl From<&Budget> for Room {
    fn from(budget: &Budget) -> Self {
        Self { requests: budget.queue.amount, memory: budget.memory_of_waiting() }
    }
}

impl WaiterCounter {
    /// Those that wait. None comes or leaves while this is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
