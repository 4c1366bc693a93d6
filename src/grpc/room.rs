//! The number of connections, which descriptors and memory bound.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::warn;

use super::warning_pause::WarningPause;
use crate::{
    budget::Share,
    metrics::Metrics,
    semaphore::{Place, ResizableSemaphore},
};

/// Room for connections of all plugins. Without room, new clients wait in the
/// queue of their socket instead of failing for lack of a descriptor, or filling the memory.
#[derive(Clone, Debug)]
pub struct Room {
    places: Arc<ResizableSemaphore>,
    /// The limit that decides the size, for people.
    origin: Arc<Mutex<String>>,
    metrics: Metrics,
    warning_pause: WarningPause,
}

impl Room {
    /// Room for `size` connections.
    #[must_use]
    pub fn new(size: &Share<usize>, metrics: Metrics) -> Self {
        Self {
            places: ResizableSemaphore::new(size.amount.max(1)),
            origin: Arc::new(Mutex::new(size.origin.clone().into_owned())),
            metrics,
            warning_pause: WarningPause::default(),
        }
    }

    /// Changes the size. Open connections stay, even if they are too many.
    pub fn resize(&self, size: &Share<usize>) {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner) =
            size.origin.clone().into_owned();
        self.places.resize(|_before| size.amount.max(1));
    }

    /// Number of open connections.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.places.taken()
    }

    /// Waits until there is room. Others may take it first.
    pub(super) async fn free(&self) {
        if self.has_free() {
            return;
        }
        self.metrics.connection_waits();
        self.warn();
        drop(self.enter().await);
    }

    /// Returns true if there is room.
    pub(super) fn has_free(&self) -> bool {
        self.places.has_free()
    }

    /// A place, if there is one at once.
    pub(super) fn try_enter(&self) -> Option<Place> {
        self.places.try_take().ok()
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Place {
        self.places.take().await
    }

    fn warn(&self) {
        if self.warning_pause.is_over() {
            let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
            warn!(
                connections = self.places.limit(),
                limit = %origin,
                "new connections wait: there is no room for more: end those of idle clients, or \
                 raise the limit: raise RLIMIT_NOFILE of the container's runtime if it is that of \
                 descriptors, and else the container's memory limit"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::ready::poll_once;

    #[tokio::test(start_paused = true)]
    async fn without_room_a_connection_waits_and_is_counted() {
        let metrics = Metrics::new();
        let room = Room::new(&Share::new(1, ""), metrics.clone());
        room.free().await;
        let place = room.try_enter().unwrap();
        assert!(timeout(Duration::from_mins(1), room.free()).await.is_err());
        assert!(room.try_enter().is_none());
        drop(place);
        room.free().await;
        assert!(metrics.render().contains("argocd_cmp_connections_waiting_total 1"));
    }

    #[tokio::test]
    async fn a_larger_room_admits_those_that_wait() {
        let room = Room::new(&Share::new(1, ""), Metrics::new());
        let _place = room.try_enter().unwrap();
        let mut waiting = Box::pin(room.free());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        room.resize(&Share::new(2, ""));
        assert!(poll_once(waiting.as_mut()).await.is_ready());
        let _second = room.try_enter().unwrap();
        room.resize(&Share::new(1, ""));
        assert_eq!(room.in_use(), 2);
        assert!(room.try_enter().is_none());
    }
}
