//! Turns of tests whose container uses all processors for a long time. Tests run side by
//! side, and two of these would delay each other's victims.

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the other tests that take turns. It is over when the guard is dropped.
pub(crate) fn take() -> MutexGuard<'static, ()> {
    // A test that failed has nothing to hand over.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
