//! A limit on the work of one decision.

use super::match_error::MatchCause;

/// Limit of one decision, in steps. A step compares one character or class.
///
/// Ordinary patterns on half a million entries take about ten million steps.
/// The limit ends hostile patterns on long names or on links between
/// directories after about two seconds.
const MAX_STEPS: u64 = 1 << 29;

/// Steps between two questions to the caller. They take less than a millisecond.
const STRETCH: u64 = 1 << 16;

/// Asked at intervals whether to go on with a decision.
pub type GoOn<'w> = dyn Fn() -> bool + 'w;

/// The remaining steps of a decision.
pub(super) struct Steps<'w> {
    left: u64,
    /// Steps until the caller is asked.
    unasked: u64,
    go_on: &'w GoOn<'w>,
}

/// A decision ended early.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    /// Its steps are used up.
    Steps,
    /// The caller stopped it.
    Stopped,
}

impl<'w> Steps<'w> {
    /// The full number of steps.
    pub(super) fn all(go_on: &'w GoOn<'w>) -> Self {
        Self::at_most(MAX_STEPS, go_on)
    }

    /// A given number of steps.
    pub(super) fn at_most(left: u64, go_on: &'w GoOn<'w>) -> Self {
        Self { left, unasked: STRETCH, go_on }
    }

    /// Uses `count` steps.
    pub(super) fn take(&mut self, count: u64) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(count).ok_or(Exhausted::Steps)?;
        if let Some(unasked) = self.unasked.checked_sub(count) {
            self.unasked = unasked;
        } else if (self.go_on)() {
            self.unasked = STRETCH;
        } else {
            return Err(Exhausted::Stopped);
        }
        Ok(())
    }
}

impl From<Exhausted> for MatchCause {
    fn from(reason: Exhausted) -> Self {
        match reason {
            Exhausted::Steps => Self::TooMuchWork,
            Exhausted::Stopped => Self::Stopped,
        }
    }
}
