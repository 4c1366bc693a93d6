//! A semaphore whose size can change while its places are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// A number of places, in the order of arrival.
#[derive(Debug)]
pub(crate) struct ResizableSemaphore {
    free: Semaphore,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    limit: usize,
    /// Places above the limit; each ends when its holder or another one leaves.
    surplus: usize,
}

impl Size {
    /// Ends a place that was left, if there is one too many. Whoever takes a place asks too:
    /// one that was given to a waiter is left without asking when the waiter gives up.
    fn end_surplus(&mut self) -> bool {
        let is_surplus = self.surplus > 0;
        self.surplus -= usize::from(is_surplus);
        is_surplus
    }
}

/// One place; dropping it frees the place, if it still exists.
#[derive(Debug)]
pub(crate) struct Place(Arc<ResizableSemaphore>);

impl ResizableSemaphore {
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
        let size = self.size();
        self.free.available_permits() > size.surplus
    }

    /// A place, if one is free at once; otherwise the limit that refuses it.
    pub(crate) fn try_take(self: &Arc<Self>) -> Result<Place, usize> {
        // The limit does not change in between.
        let mut size = self.size();
        while let Ok(permit) = self.free.try_acquire() {
            permit.forget();
            if !size.end_surplus() {
                return Ok(Place(Arc::clone(self)));
            }
        }
        Err(size.limit)
    }

    /// Waits for a place, in the order of arrival.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        loop {
            // The semaphore is never closed.
            if let Ok(permit) = self.free.acquire().await {
                permit.forget();
            }
            if !self.size().end_surplus() {
                return Place(Arc::clone(self));
            }
        }
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut size = self.0.size();
        if !size.end_surplus() {
            self.0.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::ready::poll_once;

    /// A semaphore of which all places are taken.
    fn full(limit: usize) -> (Arc<ResizableSemaphore>, Vec<Place>) {
        let places = ResizableSemaphore::new(limit);
        let taken = (0..limit).map(|_| places.try_take().unwrap()).collect();
        (places, taken)
    }

    #[tokio::test]
    async fn taken_places_that_are_too_many_end_first() {
        let (places, mut taken) = full(3);
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
        let (places, _taken) = full(1);
        let mut waiting = [(); 3].map(|()| Box::pin(places.take()));
        for one in &mut waiting {
            assert!(poll_once(one.as_mut()).await.is_pending());
        }
        places.resize(|limit| limit + 2);
        assert!(places.try_take().is_err());
        let [first, second, third] = &mut waiting;
        let served = [poll_once(first.as_mut()).await, poll_once(second.as_mut()).await];
        assert!(served.iter().all(Poll::is_ready));
        assert!(poll_once(third.as_mut()).await.is_pending());
    }

    #[tokio::test]
    async fn a_place_that_a_waiter_leaves_may_be_one_too_many() {
        let (places, mut taken) = full(2);
        let mut waiting = Box::pin(places.take());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        // The waiter has the place of the first one, and does not know it yet.
        taken.pop();
        places.resize(|_| 1);
        drop(waiting);
        assert!(!places.has_free());
        assert_eq!(places.try_take().unwrap_err(), 1);
        let mut next = Box::pin(places.take());
        assert!(poll_once(next.as_mut()).await.is_pending());
        taken.pop();
        assert!(poll_once(next.as_mut()).await.is_ready());
    }

    #[tokio::test]
    async fn a_waiter_whose_place_is_one_too_many_goes_on_waiting() {
        let (places, mut taken) = full(2);
        let mut waiting = Box::pin(places.take());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        taken.pop();
        places.resize(|_| 1);
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        assert_eq!(places.taken(), 1);
        taken.pop();
        assert!(poll_once(waiting.as_mut()).await.is_ready());
    }

    #[test]
    fn a_number_that_comes_back_adds_no_place() {
        let (places, mut taken) = full(2);
        for limit in [1, 2, 1, ResizableSemaphore::UNLIMITED, 2] {
            places.resize(|_| limit);
        }
        assert_eq!(places.try_take().unwrap_err(), 2);
        taken.pop();
        assert_eq!((places.taken(), places.limit()), (1, 2));
        assert!(places.has_free());
    }
}
