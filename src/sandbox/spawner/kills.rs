//! Signals on their way to tenants.

use std::collections::VecDeque;

use nix::sys::signal::Signal;

/// A signal to everything under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    pub(super) slot: usize,
    pub(super) lease: u64,
    pub(super) signal: Signal,
}

/// Signals that wait for their turn. Killers work one at a time: two of them
/// would be the same user, and could meet each other's signals.
///
/// Holds two for each slot at most: one to stop and one to end.
#[derive(Debug, Default)]
pub(super) struct Kills {
    waiting: VecDeque<Kill>,
    working: Option<Kill>,
}

impl Kills {
    pub(super) fn push(&mut self, kill: Kill) {
        if !self.waiting.contains(&kill) {
            self.waiting.push_back(kill);
        }
    }

    /// The next signal, unless one is being sent; nobody else gets it.
    pub(super) fn next(&mut self) -> Option<Kill> {
        if self.working.is_some() {
            return None;
        }
        self.working = self.waiting.pop_front();
        self.working
    }

    /// The signal given out last was sent, or need not be.
    pub(super) fn done(&mut self) {
        self.working = None;
    }

    /// Whether a signal is on its way to a slot. Until it has arrived the slot's
    /// user must not have another tenant.
    pub(super) fn concern(&self, slot: usize) -> bool {
        self.waiting.iter().chain(&self.working).any(|kill| kill.slot == slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(slot: usize) -> Kill {
        Kill { slot, lease: 1, signal: Signal::SIGKILL }
    }

    #[test]
    fn one_signal_is_sent_at_a_time_and_in_order() {
        let mut kills = Kills::default();
        kills.push(kill(1));
        kills.push(kill(2));
        assert_eq!(kills.next(), Some(kill(1)));
        assert_eq!(kills.next(), None);
        kills.done();
        assert_eq!(kills.next(), Some(kill(2)));
    }

    #[test]
    fn a_slot_is_concerned_until_its_signal_was_sent() {
        let mut kills = Kills::default();
        kills.push(kill(1));
        kills.push(kill(1));
        assert!(kills.concern(1) && !kills.concern(2));
        kills.next();
        assert!(kills.concern(1), "the killer is still at work");
        kills.done();
        assert!(!kills.concern(1), "the same signal is not sent twice");
    }
}
