//! The order in which ending leases work on their files. Pure.
//!
//! A request can leave hundreds of thousands of files. Few processes remove
//! files at a time, and each of them for a short turn, so that a lease with few
//! files never waits for one with many.

use std::collections::{BTreeSet, VecDeque};

/// Most processes that work on files at a time. More would only compete for the
/// processors and the volume.
const MOST: usize = 4;

/// Every so many turns, one goes to a lease that had one before. Otherwise a
/// lease with many files could wait for ever.
const AGAIN_EVERY: u32 = 4;

/// A workspace whose files are to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    /// The workspace of the lease in this slot.
    Lease(usize),
    /// A directory of an earlier spawner, by its place among them.
    Stale(usize),
}

/// The workspaces whose files are to be removed.
#[derive(Debug, Default)]
pub(super) struct Turns {
    working: BTreeSet<Ended>,
    /// Workspaces that had no turn yet. They come first.
    fresh: VecDeque<Ended>,
    again: VecDeque<Ended>,
    /// Turns given to workspaces that waited.
    given: u32,
}

impl Turns {
    /// Takes a turn at once if nobody has to wait for it.
    pub(super) fn take(&mut self, ended: Ended) -> bool {
        let is_free = self.working.len() < MOST && self.fresh.is_empty();
        is_free && self.working.insert(ended)
    }

    /// Handles a process that waits: for its first turn, or for another one.
    pub(super) fn wait(&mut self, ended: Ended) {
        let had_turn = self.working.remove(&ended);
        let queue = if had_turn { &mut self.again } else { &mut self.fresh };
        queue.push_back(ended);
    }

    /// Gives the next turn; `None` if nobody waits or too many work already.
    pub(super) fn next(&mut self) -> Option<Ended> {
        if self.working.len() >= MOST {
            return None;
        }
        let is_agains = self.given % AGAIN_EVERY == AGAIN_EVERY - 1;
        let (first, second) = if is_agains {
            (&mut self.again, &mut self.fresh)
        } else {
            (&mut self.fresh, &mut self.again)
        };
        let next = first.pop_front().or_else(|| second.pop_front())?;
        self.given = self.given.wrapping_add(1);
        self.working.insert(next);
        Some(next)
    }

    /// Removes a workspace whose process has ended.
    pub(super) fn end(&mut self, ended: Ended) {
        self.working.remove(&ended);
        self.fresh.retain(|waiting| *waiting != ended);
        self.again.retain(|waiting| *waiting != ended);
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended::Lease, *};

    #[test]
    fn only_some_leases_work_at_a_time() {
        let mut turns = Turns::default();
        assert!((0..MOST).all(|slot| turns.take(Lease(slot))));
        assert!(!turns.take(Lease(MOST)));
        turns.wait(Lease(MOST));
        assert_eq!(turns.next(), None);
        turns.end(Lease(2));
        assert!(!turns.take(Lease(9)), "another one waits longer");
        assert_eq!(turns.next(), Some(Lease(MOST)));
    }

    #[test]
    fn a_lease_with_many_files_waits_for_new_ones() {
        let mut turns = Turns::default();
        assert!((0..MOST).all(|slot| turns.take(Lease(slot))));
        (0..MOST).for_each(|slot| turns.wait(Lease(slot)));
        (10..16).for_each(|slot| turns.wait(Lease(slot)));
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [10, 11, 12, 0].map(Lease));
        (0..16)
            .filter(|slot| order.contains(&Lease(*slot)))
            .for_each(|slot| turns.end(Lease(slot)));
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [13, 14, 15, 1].map(Lease));
    }

    #[test]
    fn a_lease_that_ended_gets_no_turn() {
        let mut turns = Turns::default();
        turns.wait(Lease(7));
        turns.end(Lease(7));
        assert_eq!(turns.next(), None);
    }
}
