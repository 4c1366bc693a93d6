//! The pause between two warnings of the same kind.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Least time between two warnings.
const PAUSE: Duration = Duration::from_mins(1);

/// Keeps a warning that clients cause from filling the log. Cheap to clone; clones share the
/// time of the last warning.
#[derive(Clone, Debug, Default)]
pub(super) struct WarningPause(Arc<Mutex<Option<Instant>>>);

impl WarningPause {
    /// True if the warning is due. It counts as given.
    pub(super) fn is_over(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = last.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_over {
            *last = Some(Instant::now());
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_warning_waits_also_for_a_clone() {
        let pause = WarningPause::default();
        let clone = pause.clone();
        assert_eq!([&pause, &pause, &clone].map(WarningPause::is_over), [true, false, false]);
    }
}
