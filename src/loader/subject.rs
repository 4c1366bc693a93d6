//! The program or path that is examined, for the log.

use std::{
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
};

/// The program or path that the examiner's thread examines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject(Arc<Mutex<String>>);

impl Subject {
    /// Sets it.
    pub(super) fn set(&self, subject: impl Display) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = subject.to_string();
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
