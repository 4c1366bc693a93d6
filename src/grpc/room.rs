//! The number of connections, which the limit of descriptors bounds.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::metrics::Metrics;

/// Least time between two warnings.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

/// Room for connections of all plugins. Without room, new clients wait in the
/// queue of their socket instead of failing for lack of a descriptor.
#[derive(Clone, Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    size: usize,
    metrics: Metrics,
    warned: Arc<Mutex<Option<Instant>>>,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place(
    #[expect(dead_code, reason = "held, not used")] Option<OwnedSemaphorePermit>,
);

impl Room {
    /// Room for `size` connections.
    #[must_use]
    pub fn new(size: usize, metrics: Metrics) -> Self {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(size)), size, metrics, warned: Arc::default() }
    }

    /// Number of open connections.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.size.saturating_sub(self.places.available_permits())
    }

    /// Waits until there is room. Others may take it first.
    pub(super) async fn free(&self) {
        if self.places.available_permits() > 0 {
            return;
        }
        self.metrics.connection_waits();
        self.warn();
        drop(self.enter().await);
    }

    /// A place, if there is one at once.
    pub(super) fn try_enter(&self) -> Option<Place> {
        Some(Place(Some(Arc::clone(&self.places).try_acquire_owned().ok()?)))
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Place {
        // The semaphore is never closed.
        Place(Arc::clone(&self.places).acquire_owned().await.ok())
    }

    fn warn(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARNING_PAUSE) {
            *warned = Some(Instant::now());
            warn!(
                connections = self.size,
                "new connections wait: the limit of descriptors allows no more: raise \
                 RLIMIT_NOFILE of the container's runtime"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_room_a_connection_waits_and_is_counted() {
        let metrics = Metrics::new();
        let room = Room::new(1, metrics.clone());
        room.free().await;
        let place = room.try_enter().unwrap();
        assert!(timeout(WARNING_PAUSE, room.free()).await.is_err());
        assert!(room.try_enter().is_none());
        drop(place);
        room.free().await;
        assert!(metrics.render().contains("argocd_cmp_connections_waiting_total 1"));
    }
}
