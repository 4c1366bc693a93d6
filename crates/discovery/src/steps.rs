//! How much work one verdict may take.

/// Steps one verdict may take: a step is a character or a class compared once.
///
/// Half a million entries take some ten million with the patterns people write. It
/// ends what a crafted pattern makes of long names, or of links that lead to each
/// other, after about two seconds.
const MAX_STEPS: u64 = 1 << 29;

/// The work a verdict may still do.
#[derive(Debug)]
pub(super) struct Steps {
    left: u64,
}

/// The work allowed for one verdict is used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Steps {
    /// The whole allowance.
    pub(super) fn all() -> Self {
        Self::at_most(MAX_STEPS)
    }

    /// A smaller allowance.
    pub(super) fn at_most(left: u64) -> Self {
        Self { left }
    }

    /// Takes `count` steps.
    pub(super) fn take(&mut self, count: u64) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(count).ok_or(Exhausted)?;
        Ok(())
    }
}
