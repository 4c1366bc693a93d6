//! Waiting for what happens soon.

use std::{
    fmt::Display,
    thread,
    time::{Duration, Instant},
};

/// Time limit for every wait: far more than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for a condition.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    retry(|| is_so().then_some(()).ok_or(what));
}

/// Tries until an attempt succeeds; panics with the last error.
#[track_caller]
pub(crate) fn retry<T, E: Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(error) => assert!(Instant::now() < until, "timed out waiting for {error}"),
        }
        thread::sleep(PAUSE);
    }
}
