//! Waiting for what happens soon.

use std::{
    fmt::Display,
    thread,
    time::{Duration, Instant},
};

/// Time limit for every wait: far more than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Attempts at something that a busy machine can prevent.
const ATTEMPTS: usize = 5;

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

/// Makes a few attempts until one has a result. A busy machine prevents some of them, not all.
#[track_caller]
pub(crate) fn one_of_few<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let result = (0..ATTEMPTS).find_map(|_| attempt());
    result.unwrap_or_else(|| panic!("none of {ATTEMPTS} attempts had {what}"))
}

/// Asks a few times until an error is without this text, which a busy machine brings about.
#[track_caller]
pub(crate) fn error_without(text: &str, mut ask: impl FnMut() -> String) -> String {
    let what = format!("an error without {text:?}");
    one_of_few(&what, || Some(ask()).filter(|error| !error.contains(text)))
}
