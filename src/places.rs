//! Places whose number can change while they are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// A number of places, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Places {
    free: Semaphore,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    limit: usize,
    /// Places above the limit; each ends when its holder or another one leaves.
    surplus: usize,
}

/// One place; dropping it frees the place, if it still exists.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// More places than anybody can take.
    pub(crate) const UNLIMITED: usize = Semaphore::MAX_PERMITS;

    /// At most [`Self::UNLIMITED`] places.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.min(Self::UNLIMITED);
        let size = Mutex::new(Size { limit, surplus: 0 });
        Arc::new(Self { free: Semaphore::new(limit), size })
    }

    /// Sets the number of places to what `change` makes of the present one. New places
    /// go at once to those that wait; taken places that are too many end before any
    /// other is free. No two changes run at the same time.
    pub(crate) fn resize(&self, change: impl FnOnce(usize) -> usize) {
        let mut size = self.size();
        let limit = change(size.limit).min(Self::UNLIMITED);
        if let Some(fewer) = size.limit.checked_sub(limit) {
            size.surplus += fewer - self.free.forget_permits(fewer);
        } else {
            let more = limit - size.limit;
            let kept = more.min(size.surplus);
            size.surplus -= kept;
            self.free.add_permits(more - kept);
        }
        size.limit = limit;
    }

    /// The present number of places.
    pub(crate) fn limit(&self) -> usize {
        self.size().limit
    }

    /// Number of places that are taken.
    pub(crate) fn taken(&self) -> usize {
        let size = self.size();
        (size.limit + size.surplus).saturating_sub(self.free.available_permits())
    }

    /// True if a place is free.
    pub(crate) fn has_free(&self) -> bool {
        self.free.available_permits() > 0
    }

    /// A place, if one is free at once.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Place> {
        self.free.try_acquire().ok()?.forget();
        Some(Place(Arc::clone(self)))
    }

    /// Waits for a place, in the order of arrival.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        // The semaphore is never closed.
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
        Place(Arc::clone(self))
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut size = self.0.size();
        if size.surplus > 0 {
            size.surplus -= 1;
        } else {
            self.0.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::ready::poll_once;

    #[tokio::test]
    async fn taken_places_that_are_too_many_end_first() {
        let places = Places::new(3);
        let mut taken: Vec<_> = (0..3).filter_map(|_| places.try_take()).collect();
        let mut waiting = Box::pin(places.take());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        places.resize(|_| 1);
        for left in [2, 1] {
            taken.pop();
            assert_eq!(places.taken(), left);
            assert!(poll_once(waiting.as_mut()).await.is_pending());
        }
        taken.pop();
        assert!(poll_once(waiting.as_mut()).await.is_ready());
    }

    #[tokio::test]
    async fn new_places_go_to_those_that_wait() {
        let places = Places::new(1);
        let _taken = places.try_take();
        let mut waiting = [(); 3].map(|()| Box::pin(places.take()));
        for one in &mut waiting {
            assert!(poll_once(one.as_mut()).await.is_pending());
        }
        places.resize(|limit| limit + 2);
        assert!(places.try_take().is_none());
        let [first, second, third] = &mut waiting;
        let served = [poll_once(first.as_mut()).await, poll_once(second.as_mut()).await];
        assert!(served.iter().all(Poll::is_ready));
        assert!(poll_once(third.as_mut()).await.is_pending());
    }

    #[test]
    fn a_number_that_comes_back_adds_no_place() {
        let places = Places::new(2);
        let mut taken: Vec<_> = (0..2).filter_map(|_| places.try_take()).collect();
        for limit in [1, 2, 1, Places::UNLIMITED, 2] {
            places.resize(|_| limit);
        }
        assert!(places.try_take().is_none());
        taken.pop();
        assert_eq!((places.taken(), places.limit()), (1, 2));
        assert!(places.has_free());
    }
}
