//! Places of tests that share UIDs: a test holds one while it runs.

use std::{
    cell::Cell,
    sync::{Condvar, Mutex, PoisonError},
};

/// Places that no test holds.
pub(crate) struct Places {
    free: Mutex<Vec<u32>>,
    returned: Condvar,
}

thread_local! {
    /// The place of the test that runs on this thread.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

impl Places {
    pub(crate) fn new(all: impl IntoIterator<Item = u32>) -> Self {
        Self { free: Mutex::new(all.into_iter().collect()), returned: Condvar::new() }
    }

    /// Runs a test in a place, as soon as one is free.
    pub(crate) fn within<T>(&self, test: impl FnOnce() -> T) -> T {
        let _held = self.take();
        test()
    }

    fn take(&self) -> Held<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.returned.wait_while(free, |free| free.is_empty());
        let place = waited.unwrap_or_else(PoisonError::into_inner).pop().expect("a place");
        OWN.set(Some(place));
        Held { places: self, place }
    }
}

/// Runs a test in one of the places if it needs one.
pub(crate) fn within<T>(places: Option<&Places>, test: impl FnOnce() -> T) -> T {
    match places {
        Some(places) => places.within(test),
        None => test(),
    }
}

/// The place of the test that calls it.
pub(crate) fn own() -> u32 {
    OWN.get().expect("a test within a place")
}

struct Held<'a> {
    places: &'a Places,
    place: u32,
}

/// A test that panics returns its place too.
impl Drop for Held<'_> {
    fn drop(&mut self) {
        OWN.set(None);
        self.places.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
        self.places.returned.notify_one();
    }
}
