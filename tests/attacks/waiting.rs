//! Waiting for what happens soon.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time limit of most waits: far more than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Time between two checks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Repeats a check until it succeeds (true) or `patience` has passed (false).
pub(crate) fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}
