//! A limit on the work of one decision.

/// Limit of one decision, in steps. A step compares one character or class.
///
/// Ordinary patterns on half a million entries take about ten million steps.
/// The limit ends hostile patterns on long names or on links between
/// directories after about two seconds.
const MAX_STEPS: u64 = 1 << 29;

/// The remaining steps of a decision.
#[derive(Debug)]
pub(super) struct Steps {
    left: u64,
}

/// The steps of a decision are used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Steps {
    /// The full number of steps.
    pub(super) fn all() -> Self {
        Self::at_most(MAX_STEPS)
    }

    /// A given number of steps.
    pub(super) fn at_most(left: u64) -> Self {
        Self { left }
    }

    /// Uses `count` steps.
    pub(super) fn take(&mut self, count: u64) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(count).ok_or(Exhausted)?;
        Ok(())
    }
}
