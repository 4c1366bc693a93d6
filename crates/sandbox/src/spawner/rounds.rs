//! When a lease is looked at, and what is made of what was seen.

use std::time::{Duration, Instant};

use super::gauge::Found;
use crate::wire::{exceeded::ExceededLimit, message::RequestLimits};

/// Time between two looks, and from the first command's start to the first:
/// most requests have ended by then and cost nothing.
const EVERY: Duration = Duration::from_millis(250);

/// A look is followed by a pause of so many times its length: looking takes a
/// tenth of a processor at most.
const PAUSE: u32 = 10;

/// How long, and in how many looks, a request may be impossible to measure.
/// Directories that are moved while they are looked at make it so for a moment.
const BLIND_TIME: Duration = Duration::from_secs(5);
const BLIND_LOOKS: u32 = 3;

/// The looks at one request, from its first command to the end of its lease.
#[derive(Debug)]
pub(super) struct Rounds {
    limits: RequestLimits,
    state: State,
    /// Since when, and in how many looks, nothing could be told.
    blind: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting(Instant),
    Looking,
    /// Told of an excess; that is the end of it.
    Over,
}

impl Rounds {
    /// Looks for as long as a lease lasts; `None` if there is nothing to look for.
    pub(super) fn begin(now: Instant, limits: RequestLimits) -> Option<Self> {
        let state = State::Waiting(now + EVERY);
        limits.are_set().then_some(Self { limits, state, blind: None })
    }

    /// When the next look is due, unless one is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::Looking | State::Over => None,
        }
    }

    /// Begins a look that is due, and says at what it must look.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<RequestLimits> {
        self.due().filter(|due| *due <= now)?;
        self.state = State::Looking;
        Some(self.limits)
    }

    /// Puts a look off that was begun too early.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.state = State::Waiting(now + EVERY);
    }

    /// A look that began at `began` has ended. Returns what there is to tell.
    pub(super) fn looked(
        &mut self,
        began: Instant,
        now: Instant,
        found: Found,
    ) -> Option<ExceededLimit> {
        let excess = match found {
            Found::Within => {
                self.blind = None;
                let pause = EVERY.max((now - began) * PAUSE);
                self.state = State::Waiting(now + pause);
                None
            }
            Found::Exceeded(excess) => Some(excess),
            Found::Nothing => self.saw_nothing(began, now),
        };
        if excess.is_some() {
            self.state = State::Over;
        }
        excess
    }

    /// No long pause after such a look: it may be a tenant's doing, who would
    /// have that time to itself.
    fn saw_nothing(&mut self, began: Instant, now: Instant) -> Option<ExceededLimit> {
        let (since, looks) = self.blind.unwrap_or((began, 0));
        self.blind = Some((since, looks + 1));
        self.put_off(now);
        let is_lasting = looks + 1 >= BLIND_LOOKS && now - since >= BLIND_TIME;
        is_lasting.then_some(ExceededLimit::Unmeasured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn rounds(now: Instant) -> Rounds {
        let limits = RequestLimits { memory: 1, ..RequestLimits::default() };
        Rounds::begin(now, limits).unwrap()
    }

    #[test]
    fn without_a_limit_nobody_looks() {
        let limits = RequestLimits { file_size: 1, ..RequestLimits::default() };
        assert!(Rounds::begin(Instant::now(), limits).is_none());
    }

    #[test]
    fn a_command_that_ends_soon_is_not_looked_at() {
        let now = Instant::now();
        let mut rounds = rounds(now);
        assert_eq!(rounds.take_due(now + 249 * MILLISECOND), None);
        assert!(rounds.take_due(now + EVERY).is_some());
        assert_eq!(rounds.take_due(now + EVERY), None, "one look at a time");
        assert_eq!(rounds.due(), None);
    }

    #[test]
    fn a_long_look_is_followed_by_a_long_pause() {
        let now = Instant::now();
        for (took, pause) in [(MILLISECOND, EVERY), (100 * MILLISECOND, 1000 * MILLISECOND)] {
            let mut rounds = rounds(now);
            rounds.take_due(now + EVERY);
            assert_eq!(rounds.looked(now, now + took, Found::Within), None);
            assert_eq!(rounds.due(), Some(now + took + pause));
        }
    }

    #[test]
    fn an_excess_is_told_once() {
        let now = Instant::now();
        let mut rounds = rounds(now);
        rounds.take_due(now + EVERY);
        let told = rounds.looked(now, now, Found::Exceeded(ExceededLimit::Disk));
        assert_eq!((told, rounds.due()), (Some(ExceededLimit::Disk), None));
    }

    #[test]
    fn seeing_nothing_is_borne_for_a_while_only() {
        let now = Instant::now();
        let mut rounds = rounds(now);
        let mut told = None;
        let mut looks = 0;
        let mut at = now;
        while told.is_none() {
            at += EVERY;
            looks += 1;
            told = rounds.looked(at, at, Found::Nothing);
        }
        assert_eq!(told, Some(ExceededLimit::Unmeasured));
        assert_eq!((looks, at - now), (21, BLIND_TIME + EVERY));
    }

    #[test]
    fn a_slow_look_that_sees_nothing_is_not_the_last() {
        let now = Instant::now();
        let mut rounds = rounds(now);
        let slow = now + 2 * BLIND_TIME;
        assert_eq!(rounds.looked(now, slow, Found::Nothing), None);
        assert_eq!(rounds.looked(slow, slow, Found::Nothing), None);
        assert_eq!(rounds.looked(slow, slow, Found::Nothing), Some(ExceededLimit::Unmeasured));
    }

    #[test]
    fn one_good_look_makes_up_for_bad_ones() {
        let now = Instant::now();
        let mut rounds = rounds(now);
        for at in 0..20 {
            let at = now + at * 10 * EVERY;
            let found = if at == now { Found::Nothing } else { Found::Within };
            assert_eq!(rounds.looked(at, at, found), None);
            assert_eq!(rounds.looked(at, at, Found::Nothing), None);
        }
    }
}
